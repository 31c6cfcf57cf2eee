// Package tracetest reads files in Perfetto's trace format, as far as package trace writes
// it, and checks that a viewer can show them. It shares nothing with the encoder: its
// tables are made from Perfetto's schema, and anything that is not in them is an error.
package tracetest
