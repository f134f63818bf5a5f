// Package codec is the wire and the message record of RocketMQ: bytes in, values out; no I/O and no clock.
//
// # The frame (Java NettyDecoder, RemotingCommand)
//
//	offset  size       field
//	0       4          length: bytes that follow = 4 + headerLen + bodyLen
//	4       4          header word: top byte = SerializeType, low 24 bits = headerLen
//	8       headerLen  header: JSON text or the binary layout below
//	…       rest       body
//
// # The binary header (Java RocketMQSerializable)
//
//	offset  size  field
//	0       2     code
//	2       1     language
//	3       2     version
//	5       4     opaque
//	9       4     flag
//	13      4     remarkLen, then the remark
//	…       4     extFieldsLen, then entries: int16 keyLen, key, int32 valueLen, value
//
// All numbers are big-endian. A Command keeps its extFields raw, in place in the read buffer, until somebody asks for
// one; the send and pull headers are read by hand-written decoders that neither build a map nor allocate.
package codec

// PhyOffset is a byte position in the CommitLog.
type PhyOffset int64

// QueueOffset is the index of an entry in one queue of one topic.
type QueueOffset int64
