/* Which version of these functions the library has: see `VERSION` in `__init__.py`. */

#include <stdint.h>

__attribute__((visibility("default"))) int32_t native_version(void) { return 16; }
