// Elementary functions in double precision, of fixed operations: the standard library's last bit moves between hosts. For tables and for
// the few scalars per token that do not pay for lanes. Errors are below 1e-15 relative over the ranges stated.
#pragma once

namespace kernels {

double exp_double(double x);                          // |x| <= 700; 0 below, infinite above, NaN of NaN
double log_double(double x);                          // x > 0, normal
double log1p_double(double y);                        // 0 <= y <= 1
void sin_cos_double(double x, double* sin, double* cos);  // |x| <= 2^22

// In double, rounded once.
inline float sigmoid(float v) { return static_cast<float>(1.0 / (1.0 + exp_double(-static_cast<double>(v)))); }

}  // namespace kernels
