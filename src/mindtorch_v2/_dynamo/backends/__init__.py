"""What compiles graphs: a backend takes an fx GraphModule and example inputs and gives a function of such inputs."""
