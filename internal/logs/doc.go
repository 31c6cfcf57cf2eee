// Package logs switches a logger's records on and off at run time: all records by level and,
// as in Unreal, records at Debug also by category.
package logs
