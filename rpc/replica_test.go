package rpc

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// padded has bytes between its fields that mean nothing.
type padded struct {
	Flag bool
	X    uint64
}

// TestBytesBetweenFieldsAreNoChange: what lies between the fields of a struct may differ from what was encoded only until that is looked at.
func TestBytesBetweenFieldsAreNoChange(t *testing.T) {
	class := NewClass("Padded")
	s := NewState[padded](class)
	live := &padded{X: 1}
	r := (&boundState[*padded, padded]{declared: s.declared, where: func(p *padded) *padded { return p }}).of(live)
	_, err := r.encode()
	require.NoError(t, err)
	require.False(t, r.changed())
	(*[16]byte)(unsafe.Pointer(live))[3] = 7
	require.True(t, r.changed())
	fields, err := r.encode()
	require.NoError(t, err)
	require.Zero(t, fields)
	require.False(t, r.changed(), "looked at, and no field has changed")
}
