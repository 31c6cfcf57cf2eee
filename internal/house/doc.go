// Package house holds the rules of this repository that a program can check: the direction of imports, the purity of the
// protocol machines, the length of functions and files, the budget of exported names, and that the code of README and PORTING compiles.
// Its tests are the rules; its code only reads the tree.
package house
