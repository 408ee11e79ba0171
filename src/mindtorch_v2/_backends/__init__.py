"""Arrays, memory and kernels that are not array-generic, one package a device."""
