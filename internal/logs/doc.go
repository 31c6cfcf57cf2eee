// Package logs switches the records of one logger on and off at run time: all records by their level, and those at Debug by category as
// well, as Unreal does.
package logs
