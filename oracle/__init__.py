"""Golden cases answered by the original: a program on its module, and a driver that draws them."""
