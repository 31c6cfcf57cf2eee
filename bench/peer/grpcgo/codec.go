package grpcgo

import "google.golang.org/grpc/mem"

// A plain does not encode messages, which are *[]byte.
type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (plain) Unmarshal(data mem.BufferSlice, v any) error {
	into := v.(*[]byte)
	n := data.Len()
	if cap(*into) < n {
		*into = make([]byte, n)
	}
	*into = (*into)[:n]
	data.CopyTo(*into)
	return nil
}
