package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/cpu"
)

// Algorithm names the function that makes a digest. Its value is its code on the wire.
type Algorithm uint8

const (
	// SHA256 is fast where the CPU has instructions for it.
	SHA256 Algorithm = 1 + iota
	// BLAKE3 is twice to ten times as fast as that on amd64 with AVX2, and slow elsewhere.
	BLAKE3

	// NoDigest is for a transfer, by [Hash], whose application verifies the content itself: neither end hashes it. It arrives whole and
	// in order all the same, for each packet is authenticated; but damage by a disk or a source is not noticed. Such content has no Key,
	// so it cannot be resumed. The code is the last one: new algorithms take the next after BLAKE3.
	NoDigest Algorithm = 255
)

// digestBytes is the length of every digest so far.
const digestBytes = 32

// algorithms are those that are known, and NoDigest.
var algorithms = map[Algorithm]struct {
	name  string
	size  int // of a digest in bytes
	begin func() hashState
}{
	SHA256:   {"sha256", digestBytes, func() hashState { return sha256.New() }},
	BLAKE3:   {"blake3", digestBytes, func() hashState { return blake3.New() }},
	NoDigest: {"NoDigest", 0, func() hashState { return unhashed{} }},
}

// hashState is a digest that is being made.
type hashState interface {
	io.Writer
	Sum(b []byte) []byte
}

// known reports whether a makes digests.
func (a Algorithm) known() bool { return a.size() > 0 }

// ofTransfers reports whether a transfer may be hashed by a, or not hashed when a is NoDigest.
func (a Algorithm) ofTransfers() bool { return algorithms[a].begin != nil }

// size returns the length of a digest in bytes; 0 when a makes none.
func (a Algorithm) size() int { return algorithms[a].size }

// unhashed is the state of NoDigest.
type unhashed struct{}

func (unhashed) Write(p []byte) (int, error) { return len(p), nil }
func (unhashed) Sum(b []byte) []byte         { return b }

// String returns the name that digests in text begin with.
func (a Algorithm) String() string {
	if known, ok := algorithms[a]; ok {
		return known.name
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// New returns a Hasher to which nothing was written. The one of NoDigest makes the zero Digest. New panics if a is none of the
// constants.
func (a Algorithm) New() *Hasher {
	if !a.ofTransfers() {
		panic(fmt.Sprintf("stream: %v is unknown", a))
	}
	return &Hasher{a, algorithms[a].begin()}
}

// Of returns the digest of data.
func (a Algorithm) Of(data []byte) Digest {
	h := a.New()
	h.Write(data)
	return h.Digest()
}

// fastest returns the algorithms, the one that is the fastest on this machine first.
func fastest() []Algorithm {
	if runtime.GOARCH == "amd64" && cpu.X86.HasAVX2 {
		return []Algorithm{BLAKE3, SHA256}
	}
	return []Algorithm{SHA256, BLAKE3}
}

// Hasher makes the digest of what is written to it. [Algorithm.New] returns one, as BLAKE3.New(); the zero Hasher cannot be used.
type Hasher struct {
	algorithm Algorithm
	state     hashState
}

// Write adds p. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.state.Write(p) }

// Digest returns the digest of what was written so far. More may be written afterwards.
func (h *Hasher) Digest() Digest {
	return h.algorithm.digest(h.state.Sum(nil))
}

// digest returns the digest whose bytes are sum.
func (a Algorithm) digest(sum []byte) (d Digest) {
	if a != NoDigest {
		d.algorithm = a
		copy(d.sum[:], sum)
	}
	return d
}

// Digest names content, by an algorithm and the sum that it makes of the content: [Algorithm.Of] makes one of bytes, a [Hasher] of what is
// written to it. Digests that are equal by == name the same content. The zero Digest names none.
type Digest struct {
	algorithm Algorithm
	sum       [digestBytes]byte
}

// Algorithm returns the algorithm of the digest; 0 for the zero Digest.
func (d Digest) Algorithm() Algorithm { return d.algorithm }

// IsZero reports whether d names no content.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the algorithm's name, a colon and hex digits, as a [Key] may be: "blake3:af1349b9…". It is "" for the zero
// Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return d.algorithm.String() + ":" + hex.EncodeToString(d.sum[:])
}

// ParseDigest reads what String returns, and nothing else: a digest has one text. The zero Digest's is refused.
func ParseDigest(text string) (Digest, error) {
	name, digits, _ := strings.Cut(text, ":")
	for a := SHA256; a.known(); a++ {
		if a.String() != name {
			continue
		}
		d := Digest{algorithm: a}
		if len(digits) == hex.EncodedLen(digestBytes) {
			_, _ = hex.Decode(d.sum[:], []byte(digits)) // with a digit that is none, d's text will differ
		}
		if d.String() == text {
			return d, nil
		}
	}
	return Digest{}, fmt.Errorf("stream: %q is no digest that is known here", clip(text, 80))
}

// checkKey refuses a key that begins as the text of a digest does and is none that is known here: one in upper case, cut short, or by another
// algorithm. As a plain name it would be compared with nothing, and whoever gave it believes that it is.
func checkKey(key string) error {
	name, _, colon := strings.Cut(key, ":")
	if _, err := ParseDigest(key); !colon || err == nil || !namesAlgorithm(name) {
		return nil
	}
	return fmt.Errorf("stream: Key(%q) is nearly the text of a digest: that is %v or %v, a colon and %d hex digits in lower case, as Digest.String makes it",
		clip(key, maxKeyBytes), SHA256, BLAKE3, hex.EncodedLen(digestBytes))
}

// namesAlgorithm reports whether a name is that of an algorithm that makes digests, here or elsewhere: SHA-256, md5, blake2b.
func namesAlgorithm(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, family := range []string{"md", "sha", "blake"} {
		rest, ok := strings.CutPrefix(name, family)
		rest = strings.TrimLeft(rest, "-_")
		if ok && rest != "" && '0' <= rest[0] && rest[0] <= '9' {
			return true
		}
	}
	return false
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It also takes the text of the zero Digest.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d = Digest{}
	if len(text) > 0 {
		*d, err = ParseDigest(string(text))
	}
	return err
}
