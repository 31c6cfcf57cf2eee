// Package logs switches the records of a logger on and off at run time: all
// records by their level, and those at Debug also by category, as Unreal does.
package logs
