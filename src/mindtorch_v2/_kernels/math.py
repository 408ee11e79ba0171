"""Elementary functions in the kernel language: `exp_f32`, `exp_f64`, ... What is not here is the C library's."""
