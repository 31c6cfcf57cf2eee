package peer

import (
	"bufio"
	"io"
)

const bufferBytes = 64 << 10

func buffered(r io.Reader) *bufio.Reader  { return bufio.NewReaderSize(r, bufferBytes) }
func newWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, bufferBytes) }
