#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/double_tables.h"
#include "ops/ops.h"

namespace kernels {
namespace {
namespace scalar {
#include "ops/lanes_scalar.inc"
#include "ops/elementary.inc"
#include "ops/doubles.inc"
#include "ops/weight_rows.inc"
#include "ops/linear_definition.inc"
#include "ops/body.inc"
const Ops table = make_table("scalar");
}  // namespace scalar
}  // namespace

const Ops* scalar_ops() { return &scalar::table; }

}  // namespace kernels
