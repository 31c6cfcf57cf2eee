package slices

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/reedsolomon"
)

// A repair is a repair slice, one of the parity shards of a chunk. A chunk of count slices can be restored from any count of its slices
// and repair slices. They travel over the sealed carrier only; a peer that does not know them loses nothing, since lost slices leave again.
//
//	byte     repairByte
//	uint16   id of the chunk, big endian
//	byte     count of its slices, less one
//	byte     parity, how many repair slices there are
//	byte     index of this one, below parity
//	uint16   bytes of the last slice, big endian
//	bytes    the shard, Size of it
//
// The code is Reed-Solomon over GF(2^8) with the polynomial 0x11d and a Cauchy matrix: shard i is the sum of all slices c, each
// multiplied by the inverse of (count+i) xor c. The last slice is filled up with zeros.
type repair struct {
	id     uint16 // of the chunk
	count  int    // slices of the chunk
	parity int    // repair slices of the chunk
	index  int    // of this one, below parity
	last   int    // bytes of the chunk's last slice
	shard  []byte
}

const (
	repairByte   = 0x04
	repairHeader = 8
	repairBytes  = repairHeader + Size
	// maxParity is how many repair slices a chunk may have; where it would need more, another round trip is cheaper.
	maxParity = 16
	// maxRepaired is how many slices a chunk with repair slices may have: the work grows with the third power of that.
	maxRepaired = 64
)

func (r repair) append(b []byte) []byte {
	b = append(b, repairByte)
	b = binary.BigEndian.AppendUint16(b, r.id)
	b = append(b, byte(r.count-1), byte(r.parity), byte(r.index))
	b = binary.BigEndian.AppendUint16(b, uint16(r.last))
	return append(b, r.shard...)
}

// parseRepair returns a repair slice whose shard aliases b.
func parseRepair(b []byte) (repair, error) {
	if len(b) != repairBytes || b[0] != repairByte {
		return repair{}, fmt.Errorf("%w: repair slice of %d bytes", errMalformed, len(b))
	}
	r := repair{
		id:     binary.BigEndian.Uint16(b[1:]),
		count:  int(b[3]) + 1,
		parity: int(b[4]),
		index:  int(b[5]),
		last:   int(binary.BigEndian.Uint16(b[6:])),
		shard:  b[repairHeader:],
	}
	if r.parity > maxParity || r.index >= r.parity || r.count > maxRepaired || r.last < 1 || r.last > Size {
		return repair{}, fmt.Errorf("%w: repair slice %d of %d for %d slices", errMalformed, r.index, r.parity, r.count)
	}
	return r, nil
}

// errMalformed is the error of a repair slice that cannot be read.
var errMalformed = errors.New("slices: malformed repair slice")

// coders are the codes in use, by count and parity.
type coders map[[2]int]reedsolomon.Encoder

// maxCoders is how many codes coders holds; when there would be more, it drops all. Nearly all chunks have the same count.
const maxCoders = 8

func (c *coders) get(count, parity int) (reedsolomon.Encoder, error) {
	key := [2]int{count, parity}
	if code := (*c)[key]; code != nil {
		return code, nil
	}
	code, err := reedsolomon.New(count, parity, reedsolomon.WithCauchyMatrix(), reedsolomon.WithMaxGoroutines(1),
		reedsolomon.WithInversionCache(false)) // which would keep a matrix for each pattern of losses, and the peer chooses those
	if err != nil {
		return nil, fmt.Errorf("slices: %d repair slices for %d: %w", parity, count, err)
	}
	if len(*c) >= maxCoders || *c == nil {
		*c = make(coders)
	}
	(*c)[key] = code
	return code, nil
}

// missRate is the share of chunks whose repair slices may be too few.
const missRate = 0.001

// parityFor returns how many repair slices a chunk needs so that they are too few with at most the probability missRate, when each slice
// and repair slice is lost with the probability loss: a quantile of the binomial distribution.
func parityFor(slices int, loss float64) int {
	for parity := range maxParity {
		if tooFew(slices+parity, parity, loss) < missRate {
			return parity
		}
	}
	return maxParity
}

// tooFew returns the probability that more than most of n slices are lost.
func tooFew(n, most int, loss float64) float64 {
	term := math.Pow(1-loss, float64(n)) // the probability that k are lost
	sum := term
	for k := range most {
		term *= float64(n-k) / float64(k+1) * loss / (1 - loss)
		sum += term
	}
	return 1 - sum
}
