/* As in the toolkit, where the types of the runtime have a header of their own. */
#pragma once
#include "cuda_runtime_api.h"
