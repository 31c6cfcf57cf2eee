// Package house holds the rules of this repository that a program can check: the direction
// of imports, the purity of the protocol machines, the length of functions, the number of
// files of a package, where methods stand, the budget of exported names, that the code of
// README and PORTING compiles, and that every claim of SECURITY.md and every rule of a
// WIRE.md names a test that exists. Its tests are the rules; its code only reads the tree.
package house
