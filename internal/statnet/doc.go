// Package statnet formats the numbers of a connection or a world as text, as Unreal's stat
// net does. Lines have at most 100 characters. They contain a label and values in columns,
// each with its unit.
package statnet
