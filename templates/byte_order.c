#if INGOT_BIG_ENDIAN != [[ big_endian ]]
#error "the numbers in this folder are [[ byte_order ]]-endian: cast again with --byte-order [[ "little" if big_endian else "big" ]], or --weights array"
#endif
