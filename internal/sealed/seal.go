package sealed

import "slices"

// A sealer encrypts one direction of a carrier. It shares no state with the session, so it
// doesn't need the session's lock. It is not safe for concurrent use.
type sealer struct {
	keys  *generation
	mask  *mask
	nonce [nonceBytes]byte
}

func newSealer(s *suite, export Exporter, instance uint32, d direction) (*sealer, error) {
	keys, mask, err := firstKeys(s, export, instance, d)
	return &sealer{keys: keys, mask: mask}, err
}

// seal encrypts a packet in place, appends the tag and masks the number. packet consists of the
// header, with the number in the clear, and the frames. Numbers must increase from call to call
// and stay below maxNumber.
func (s *sealer) seal(packet []byte, number uint64) ([]byte, error) {
	for s.keys.index < number>>generationBits {
		keys, err := s.keys.next()
		if err != nil {
			return nil, err
		}
		s.keys = keys
	}

	s.keys.nonce(&s.nonce, number)
	packet = slices.Grow(packet, tagBytes)
	header, frames := packet[:headerBytes], packet[headerBytes:]
	sealed := s.keys.aead.Seal(frames[:0], s.nonce[:], frames, header)
	s.mask.apply(header, sealed)
	return packet[:headerBytes+len(sealed)], nil
}
