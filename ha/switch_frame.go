package ha

import (
	"encoding/binary"
	"fmt"

	"skylark/store"
)

// Sizes and states of the frames of automatic switching, see doc.go.
const (
	slaveHandshakeBytes  = 16 // slave → master (Java AutoSwitchHAClient.HANDSHAKE_HEADER_SIZE)
	switchReportBytes    = 12 // slave → master (Java AutoSwitchHAClient.TRANSFER_HEADER_SIZE)
	masterHandshakeBytes = 20 // master → slave, before the epochs (Java AutoSwitchHAConnection.HANDSHAKE_HEADER_SIZE)
	epochEntryBytes      = 12
	switchHeaderBytes    = 36 // master → slave, before bytes of the log (Java AutoSwitchHAConnection.TRANSFER_HEADER_SIZE)
	// maxSwitchBodyBytes is the longest body: Java's slave reads a frame into a buffer of 4 MiB.
	maxSwitchBodyBytes = 4<<20 - switchHeaderBytes

	stateHandshake = 1 // ordinals of Java's HAConnectionState
	stateTransfer  = 2
)

// slaveHandshake is how a slave introduces itself.
type slaveHandshake struct {
	lastFile bool // syncFromLastFile
	learner  bool // asyncLearner
	id       int64
}

func flagBit(on bool) uint16 {
	if on {
		return 1
	}
	return 0
}

func appendSlaveHandshake(b []byte, h slaveHandshake) []byte {
	b = binary.BigEndian.AppendUint32(b, stateHandshake)
	b = binary.BigEndian.AppendUint16(b, flagBit(h.lastFile))
	b = binary.BigEndian.AppendUint16(b, flagBit(h.learner))
	return binary.BigEndian.AppendUint64(b, uint64(h.id))
}

// parseSlaveHandshake reads slaveHandshakeBytes behind whose state.
func parseSlaveHandshake(b []byte) slaveHandshake {
	return slaveHandshake{lastFile: binary.BigEndian.Uint16(b[4:]) == 1, learner: binary.BigEndian.Uint16(b[6:]) == 1,
		id: int64(binary.BigEndian.Uint64(b[8:]))}
}

func appendSwitchReport(b []byte, p store.PhyOffset) []byte {
	b = binary.BigEndian.AppendUint32(b, stateTransfer)
	return binary.BigEndian.AppendUint64(b, uint64(p))
}

// masterHandshake is what a master tells a slave first: the end of its log and its epochs.
type masterHandshake struct {
	end     store.PhyOffset
	epoch   int32
	entries []EpochEntry
}

func appendMasterHandshake(b []byte, h masterHandshake) []byte {
	b = binary.BigEndian.AppendUint32(b, stateHandshake)
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.entries)*epochEntryBytes))
	b = binary.BigEndian.AppendUint64(b, uint64(h.end))
	b = binary.BigEndian.AppendUint32(b, uint32(h.epoch))
	for _, e := range h.entries {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Epoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.StartOffset))
	}
	return b
}

// switchHeader is the head of a frame of the log; size 0 is a heartbeat.
type switchHeader struct {
	size       int
	phyOffset  store.PhyOffset
	epoch      int32
	epochStart store.PhyOffset
	confirm    store.PhyOffset
}

func appendSwitchHeader(b []byte, h switchHeader) []byte {
	b = binary.BigEndian.AppendUint32(b, stateTransfer)
	b = binary.BigEndian.AppendUint32(b, uint32(h.size))
	b = binary.BigEndian.AppendUint64(b, uint64(h.phyOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(h.epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(h.epochStart))
	return binary.BigEndian.AppendUint64(b, uint64(h.confirm))
}

// masterHead is the first masterHandshakeBytes of a frame of the master, which both kinds have.
type masterHead struct {
	state     uint32
	size      int
	phyOffset store.PhyOffset
	epoch     int32
}

// parseMasterHead reads masterHandshakeBytes of b. Offset -1 is a Java master without a log.
func parseMasterHead(b []byte) (masterHead, error) {
	be := binary.BigEndian
	h := masterHead{be.Uint32(b), int(int32(be.Uint32(b[4:]))), store.PhyOffset(be.Uint64(b[8:])), int32(be.Uint32(b[16:]))}
	limit := maxSwitchBodyBytes
	if h.state == stateHandshake {
		limit = maxHandshakeBytes
	}
	if h.state != stateHandshake && h.state != stateTransfer || h.size < 0 || h.size > limit || h.phyOffset < -1 ||
		h.state == stateHandshake && h.size%epochEntryBytes != 0 {
		return h, fmt.Errorf("ha: frame of state %d, %d bytes at %d: the peer is no master of this protocol", h.state, h.size,
			h.phyOffset)
	}
	return h, nil
}

// parseEpochEntries reads the body of a master's handshake.
func parseEpochEntries(b []byte) ([]EpochEntry, error) {
	var list []EpochEntry
	for ; len(b) >= epochEntryBytes; b = b[epochEntryBytes:] {
		e := EpochEntry{Epoch: int32(binary.BigEndian.Uint32(b)), StartOffset: store.PhyOffset(binary.BigEndian.Uint64(b[4:]))}
		if e.StartOffset < 0 || len(list) > 0 && !e.follows(list[len(list)-1]) {
			return nil, fmt.Errorf("ha: the master's epochs are in no order: %d from %d on", e.Epoch, e.StartOffset)
		}
		list = append(list, e)
	}
	return linked(list), nil
}
