package slices

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/reedsolomon"
)

// A repair slice is one of the parity shards of a chunk: any count of its slices and repair slices make the chunk. It
// travels over the sealed carrier only, and a peer that does not know it misses nothing, for lost slices come again.
//
//	byte     repairByte
//	uint16   id of the chunk, big endian
//	byte     count of its slices, less one
//	byte     parity, how many repair slices there are
//	byte     index of this one, below parity
//	uint16   bytes of the last slice, big endian
//	bytes    the shard, Size of it
//
// Shards are Reed and Solomon's over GF(2^8) with the polynomial 0x11d and Cauchy's matrix: shard i is the sum of all slices
// c, each times the inverse of (count+i) xor c. The last slice is filled up with zeros.
type repair struct {
	id                   uint16
	count, parity, index int
	last                 int
	shard                []byte
}

const (
	repairByte   = 0x04
	repairHeader = 8
	repairBytes  = repairHeader + Size
	// maxParity of a chunk; beyond, another round trip is cheaper.
	maxParity = 16
	// maxRepaired is how many slices a chunk with repair slices has at most, for the work grows with its third power.
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

// errMalformed is what a repair slice that cannot be read is.
var errMalformed = errors.New("slices: malformed repair slice")

// coders are the codes used lately.
type coders map[[2]int]reedsolomon.Encoder

// maxCoders bounds them; nearly all chunks have as many slices.
const maxCoders = 8

func (c *coders) get(count, parity int) (reedsolomon.Encoder, error) {
	key := [2]int{count, parity}
	if code := (*c)[key]; code != nil {
		return code, nil
	}
	code, err := reedsolomon.New(count, parity, reedsolomon.WithCauchyMatrix(), reedsolomon.WithMaxGoroutines(1),
		reedsolomon.WithInversionCache(false)) // a matrix for each pattern of losses, which are the peer's to choose
	if err != nil {
		return nil, fmt.Errorf("slices: %d repair slices for %d: %w", parity, count, err)
	}
	if len(*c) >= maxCoders || *c == nil {
		*c = make(coders)
	}
	(*c)[key] = code
	return code, nil
}

// missRate is how often the repair slices of a chunk may be too few.
const missRate = 0.001

// parityFor returns how many repair slices make good what slices under way lose, of which each is lost with that
// probability, but for missRate: the quantile of the binomial distribution.
func parityFor(slices int, loss float64) int {
	for parity := range maxParity {
		if tooFew(slices+parity, parity, loss) < missRate {
			return parity
		}
	}
	return maxParity
}

// tooFew is the probability that of n slices more than most are lost.
func tooFew(n, most int, loss float64) float64 {
	term := math.Pow(1-loss, float64(n)) // of k lost
	sum := term
	for k := range most {
		term *= float64(n-k) / float64(k+1) * loss / (1 - loss)
		sum += term
	}
	return 1 - sum
}
