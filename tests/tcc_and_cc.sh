# A compiler of C: tcc makes the objects of .c files. What it does not know, assembler, and what links, are cc's,
# or what $CC names.
case " $* " in
    *".c "*) tcc "$@" 2>/dev/null || exec ${CC:-cc} "$@" ;;
    *) exec ${CC:-cc} "$@" ;;
esac
