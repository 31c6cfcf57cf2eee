package slices

import (
	"encoding/binary"

	"github.com/quivernet/quiver/internal/parity"
)

// A repair is a repair slice: one of the parity shards of a chunk. A chunk of n slices can be
// restored from any n of its slices and repair slices.
//
// We send repair slices only over the sealed carrier. A peer that doesn't know them still gets
// everything, since lost slices are resent as well.
//
//	byte     repairByte
//	uint16   id of the chunk, big endian
//	byte     count of its slices, less one
//	byte     total, the number of repair slices
//	byte     index of this slice, below total
//	uint16   bytes of the last slice, big endian
//	bytes    the shard, Size of it
//
// Package parity makes the shards. The last slice is padded with zeros.
type repair struct {
	id    uint16 // of the chunk
	count int    // number of slices of the chunk
	total int    // number of repair slices of the chunk
	index int    // of this one, below total
	last  int    // size of the chunk's last slice, in bytes
	shard []byte
}

// maxRepaired is the maximum number of slices in a chunk with repair slices. It's more than
// SlicesPerPart, and limited because the work of restoring a chunk grows with its number of slices
// times the number of lost slices.
const maxRepaired = 64

const (
	repairByte   = 0x04 // first byte of a datagram with a repair slice
	repairHeader = 8
	repairBytes  = repairHeader + Size
)

// append appends a repair slice to b.
func (r repair) append(b []byte) []byte {
	b = append(b, repairByte)
	b = binary.BigEndian.AppendUint16(b, r.id)
	b = append(b, byte(r.count-1), byte(r.total), byte(r.index))
	b = binary.BigEndian.AppendUint16(b, uint16(r.last))
	return append(b, r.shard...)
}

// parseRepair parses a repair slice. Its shard aliases b. ok is false if b isn't a valid repair
// slice.
func parseRepair(b []byte) (r repair, ok bool) {
	if len(b) != repairBytes || b[0] != repairByte {
		return repair{}, false
	}
	r = repair{
		id:    binary.BigEndian.Uint16(b[1:]),
		count: int(b[3]) + 1,
		total: int(b[4]),
		index: int(b[5]),
		last:  int(binary.BigEndian.Uint16(b[6:])),
		shard: b[repairHeader:],
	}
	valid := r.total <= parity.Most && r.index < r.total && r.count <= maxRepaired &&
		1 <= r.last && r.last <= Size
	return r, valid
}
