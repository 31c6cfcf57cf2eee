// Package statnet formats the numbers of a connection or a world as text, as Unreal's stat net
// does: a label, and values in columns, each with its unit, in lines of at most 100 characters.
package statnet
