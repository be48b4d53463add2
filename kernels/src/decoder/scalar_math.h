// Elementary functions in double precision for tables, of fixed operations (ops/doubles.inc): the standard library's last bit moves between
// hosts.
#pragma once

namespace kernels {

double exp_double(double x);                          // |x| <= 700; 0 below, infinite above, NaN of NaN
double log_double(double x);                          // x > 0, normal
void sin_cos_double(double x, double* sin, double* cos);  // |x| <= 2^22

}  // namespace kernels
