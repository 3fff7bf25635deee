"""Names that the C world has uses for: headers, macros, libraries and targets of build systems. Data only."""
from __future__ import annotations

import re

# NAME.h of a network lies in a folder that programs pass with -I, where it would be found instead of a header of the
# system: those of C, of POSIX, of C libraries, of compilers and of Windows, as file systems without case have them.
HEADERS = frozenset("""
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
aio arpa cpio dirent dlfcn endian fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen libintl monetary mqueue ndbm
netdb nl_types poll pthread pwd regex sched search semaphore spawn strings stropts syslog tar termios trace ulimit
unistd utime utmpx wordexp
aliases alloca ar argp argz byteswap crypt elf envz err error execinfo expat features fstab fts gconv getopt
gshadow ifaddrs lastlog link magic malloc mcheck memory mntent nss obstack paths printf proc_service pty re_comp regexp
resolv sgtty shadow stab stdio_ext syscall sysexits term termcap termio thread_db ttyent ucontext utmp values wait
newlib _ansi reent sysinfo bits sys asm linux gnu net
cet cpuid gcov mm3dnow mm_malloc omp ompt openacc quadmath stdfix syslimits unwind vadefs varargs
altivec msa intrin builtins arm64intr armintr arm_acle arm_neon arm_sve arm_mve arm_cmse arm_fp16 arm_bf16 arm_cde
wasm_simd128 riscv_vector hexagon_types hexagon_protos
basetsd conio corecrt crtdbg crtdefs dbghelp direct dos excpt fileapi guiddef io minwindef new ntdef ntstatus objbase
ole2 process psapi rpc sal share shellapi tchar vcruntime version winapifamily winbase windef windows winerror winnt
winsock winsock2 winternl winuser
availability availabilitymacros targetconditionals
zlib zconf png jpeglib
cuda cudart cuda_runtime cuda_runtime_api cuda_fp16 cuda_bf16 cuda_fp8 mma
""".split())
HEADER_FAMILIES = re.compile(r".*intrin|.*intrinsics|opencl.*|curses.*|ncurses.*")
# libNAME.a beside -lNAME, and what CMake and make call targets of their own.
BUILD = frozenset("""
c m gcc pthread rt dl util crypt gomp omp iomp5 stdc
all any check clean default depend edit_cache example help install list_install_components none package
package_source preinstall rebuild_cache selftest test uninstall makefile cmakelists readme
""".split())
# Prefixes of functions in libraries: a kernel of a network called so is NAME_something.
PREFIXES = frozenset("aio clock f32x4 f32x8 f32x16 gomp inet kmp mq omp posix pthread sched sem timer".split())

# Macros without arguments: of C's headers, which a program may include before NAME.h, and of compilers for targets.
_ERRNO = """
E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR EBADRQC
EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EDEADLOCK
EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ EINPROGRESS EINTR
EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC EL3HLT EL3RST ELIBACC ELIBBAD
ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN
ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM
ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM
ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO
EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE
ESRCH ESRMNT ESTALE ESTRPIPE ETIME ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL
"""
MACROS = frozenset(_ERRNO.split()) | frozenset("""
BUFSIZ CLOCKS_PER_SEC DECIMAL_DIG EOF FILENAME_MAX FOPEN_MAX HUGE_VAL HUGE_VALF HUGE_VALL I INFINITY L_tmpnam
MATH_ERRNO MATH_ERREXCEPT MB_CUR_MAX NAN NULL RAND_MAX TIME_UTC TMP_MAX WEOF math_errhandling NSIG P_tmpdir
BIG_ENDIAN LITTLE_ENDIAN PDP_ENDIAN BYTE_ORDER PATH_MAX NAME_MAX PIPE_BUF
TRUE FALSE BOOL VOID CONST IN OUT OPTIONAL ERROR near far huge interrupt pascal cdecl min max interface
bool true false complex imaginary noreturn static_assert thread_local alignas alignof and and_eq bitand bitor compl not
not_eq or or_eq xor xor_eq assert errno stdin stdout stderr environ
linux unix i386 i486 i586 i686 arm mips mipsel sparc sun vax hpux m68k mc68000 ppc powerpc PPC POWERPC alpha hppa pdp11
""".split())
MACRO_FAMILIES = re.compile(
    r"(CHAR|SCHAR|UCHAR|SHRT|USHRT|U?INT|U?LONG|U?LLONG|U?INTPTR|U?INTMAX|U?INT_(FAST|LEAST)\d+|PTRDIFF|S?SIZE"
    r"|WCHAR|WINT|SIG_ATOMIC)_(MAX|MIN|BIT|WIDTH)|(FLT|L?DBL)_[A-Z0-9_]+|(FE|FP)_[A-Z0-9]+|MB_LEN_MAX|M_[A-Z0-9_]+"
    r"|LC_[A-Z]+|(PRI|SCN)[diouxX](8|16|32|64|PTR|MAX|(FAST|LEAST)\d+)|CLOCK_[A-Z_]+|SEEK_[A-Z]+|EXIT_[A-Z]+"
    r"|SIG(_[A-Z]+|[A-Z]{2,4}\d?)|(STDIN|STDOUT|STDERR)_FILENO")
