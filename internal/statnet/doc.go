// Package statnet lays the numbers of a connection or a world out as text, as Unreal's stat net does: a label, and its values in
// columns, each with its unit, at most 100 characters wide.
package statnet
