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

	"github.com/quivernet/quiver/internal/words"
)

// An Algorithm is a hash function for digests. Its value is its code on the wire.
type Algorithm uint8

const (
	// SHA256 is fast on CPUs that have instructions for it.
	SHA256 Algorithm = 1 + iota
	// BLAKE3 is two to ten times as fast as SHA256 on amd64 with AVX2, and slow elsewhere.
	BLAKE3

	// NoDigest, an argument of [Hash], turns verification off for an application that verifies
	// the content itself. Neither end then hashes the content.
	//
	// The content still arrives complete and in order, since each packet is authenticated, but
	// damage by a disk or a source goes unnoticed. A transfer without a digest has no Key, so it
	// cannot be resumed.
	//
	// Its code is the highest, to leave room for new algorithms after BLAKE3.
	NoDigest Algorithm = 255
)

// digestBytes is the size of a digest, which is the same for all known algorithms.
const digestBytes = 32

// algorithms holds the known algorithms and NoDigest.
var algorithms = map[Algorithm]struct {
	name  string
	size  int // digest size in bytes
	begin func() hashState
}{
	SHA256:   {"sha256", digestBytes, func() hashState { return sha256.New() }},
	BLAKE3:   {"blake3", digestBytes, func() hashState { return blake3.New() }},
	NoDigest: {"NoDigest", 0, func() hashState { return unhashed{} }},
}

// A hashState has the methods of hash.Hash that we need.
type hashState interface {
	io.Writer
	Sum(b []byte) []byte
}

// computesDigests reports whether a is a known algorithm other than NoDigest.
func (a Algorithm) computesDigests() bool { return a.size() > 0 }

// isKnown reports whether a transfer may use a. Unlike computesDigests, it includes NoDigest.
func (a Algorithm) isKnown() bool { return algorithms[a].begin != nil }

// size returns the size of a digest in bytes, or 0 if a computes none.
func (a Algorithm) size() int { return algorithms[a].size }

// unhashed is the hashState of NoDigest. It ignores the bytes written to it.
type unhashed struct{}

func (unhashed) Write(p []byte) (int, error) { return len(p), nil }
func (unhashed) Sum(b []byte) []byte         { return b }

// String returns the name with which the text of a digest begins, such as "sha256".
func (a Algorithm) String() string {
	if known, ok := algorithms[a]; ok {
		return known.name
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// New returns an empty Hasher. A Hasher of NoDigest returns the zero Digest. New panics if a is
// not one of the constants.
func (a Algorithm) New() *Hasher {
	if !a.isKnown() {
		panic(fmt.Sprintf("stream: unknown %v", a))
	}
	return &Hasher{a, algorithms[a].begin()}
}

// Of returns the digest of data.
func (a Algorithm) Of(data []byte) Digest {
	h := a.New()
	h.Write(data)
	return h.Digest()
}

// fastestFirst returns the algorithms that compute digests, beginning with the fastest on this
// machine.
func fastestFirst() []Algorithm {
	if runtime.GOARCH == "amd64" && cpu.X86.HasAVX2 {
		return []Algorithm{BLAKE3, SHA256}
	}
	return []Algorithm{SHA256, BLAKE3}
}

// A Hasher computes the digest of the bytes written to it. [Algorithm.New] returns one, as in
// BLAKE3.New(). The zero Hasher cannot be used.
type Hasher struct {
	algorithm Algorithm
	state     hashState
}

// Write hashes p. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.state.Write(p) }

// Digest returns the digest of everything written so far. More may be written afterwards.
func (h *Hasher) Digest() Digest {
	return h.algorithm.digest(h.state.Sum(nil))
}

// digest returns the digest with the given sum, or the zero Digest if a is NoDigest.
func (a Algorithm) digest(sum []byte) (d Digest) {
	if a != NoDigest {
		d.algorithm = a
		copy(d.sum[:], sum)
	}
	return d
}

// A Digest identifies content by its hash. [Algorithm.Of] returns the digest of a byte slice, and
// [Hasher.Digest] returns the digest of the bytes written to a Hasher. Two digests that are equal
// by == identify the same content. The zero Digest identifies no content.
type Digest struct {
	algorithm Algorithm
	sum       [digestBytes]byte
}

// Algorithm returns the digest's algorithm, or 0 for the zero Digest.
func (d Digest) Algorithm() Algorithm { return d.algorithm }

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the algorithm's name, a colon and hex digits, as in "blake3:af1349b9…". This
// text can be a [Key]. For the zero Digest, String returns "".
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return d.algorithm.String() + ":" + hex.EncodeToString(d.sum[:])
}

// ParseDigest parses the text that String returns. It accepts no other form, so that a digest
// has only one text. The text of the zero Digest is an error.
func ParseDigest(text string) (Digest, error) {
	name, digits, _ := strings.Cut(text, ":")
	for a := SHA256; a.computesDigests(); a++ {
		if a.String() != name {
			continue
		}
		d := Digest{algorithm: a}
		if len(digits) == hex.EncodedLen(digestBytes) {
			_, _ = hex.Decode(d.sum[:], []byte(digits))
		}
		// This catches invalid digits, upper case digits, and all other mistakes.
		if d.String() == text {
			return d, nil
		}
	}
	return Digest{}, fmt.Errorf("stream: %q is not a digest by a known algorithm", words.Cut(text, 80))
}

// checkKey returns an error for a key that looks like the text of a digest but isn't one that we
// accept: it may be in upper case, cut short, or by an unknown algorithm. A caller who passes such
// a key expects the content to be verified against it, but we would treat it as an ordinary name.
func checkKey(key string) error {
	name, _, colon := strings.Cut(key, ":")
	if _, err := ParseDigest(key); !colon || err == nil || !namesAlgorithm(name) {
		return nil
	}
	return fmt.Errorf("stream: Key(%q) is nearly the text of a digest, "+
		"which has the form of Digest.String: %v or %v, a colon, and %d lowercase hex digits",
		words.Cut(key, maxKeyBytes), SHA256, BLAKE3, hex.EncodedLen(digestBytes))
}

// namesAlgorithm reports whether name is the name of a hash function, such as SHA-256, md5 or
// blake2b. We need not know the function.
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

// UnmarshalText implements encoding.TextUnmarshaler. Unlike ParseDigest, it accepts the text of
// the zero Digest.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d = Digest{}
	if len(text) > 0 {
		*d, err = ParseDigest(string(text))
	}
	return err
}

// A hasher computes the digest of content. If the content's key is a digest by another algorithm,
// the hasher computes that digest as well.
type hasher struct {
	*Hasher
	name   Digest  // the digest that is the content's key; zero if the key isn't a digest
	byName *Hasher // computes the digest to compare with name; nil if Hasher does
}

// newHasher returns a hasher that has seen no content. It uses algorithm a and the algorithm of
// name.
func newHasher(a Algorithm, name Digest) hasher {
	h := hasher{Hasher: a.New(), name: name}
	if !name.IsZero() && name.algorithm != a {
		h.byName = name.algorithm.New()
	}
	return h
}

// Write hashes p. It never fails.
func (h hasher) Write(p []byte) (int, error) {
	if h.byName != nil {
		h.byName.Write(p)
	}
	return h.Hasher.Write(p)
}

// check returns an error unless the content has the given digest. If the content's key is a digest,
// the content must match it too. origin tells the reader of the error where digest comes from.
func (h hasher) check(digest Digest, origin string) error {
	got := h.Digest()
	if got != digest {
		return differs(digest, origin, got)
	}
	if h.byName != nil {
		got = h.byName.Digest()
	}
	if !h.name.IsZero() && got != h.name {
		return differs(h.name, "the key", got)
	}
	return nil
}

// otherSize returns the error for content of which the sender has one size and we have another. has
// and are say what each end did with its bytes.
func otherSize(has string, size, ours int64, are string) error {
	return fmt.Errorf("%w: sender %s %s, but %d %s", ErrDigest, has, words.Bytes(size), ours, are)
}

// differs returns the error for content whose digest is got instead of expected. origin says where
// expected comes from.
func differs(expected Digest, origin string, got Digest) error {
	return fmt.Errorf("%w: expected %v (%s), got %v", ErrDigest, expected, origin, got)
}
