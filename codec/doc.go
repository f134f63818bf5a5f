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
// # The record (Java MessageDecoder, CommitLog)
//
//	offset  size       field
//	0       4          total size, these 4 bytes included
//	4       4          magic: MagicV1, MagicV2, or MagicBlank (then nothing else)
//	8       4          CRC-32 of the body without its sign bit
//	12      4          queue id
//	16      4          flag of the user
//	20      8          queue offset      (a hole until PatchRecord)
//	28      8          physical offset   (a hole until PatchRecord)
//	36      4          sysFlag
//	40      8          born timestamp, milliseconds
//	48      8 or 20    born host: address of 4 bytes, or 16 with SysFlagBornHostV6, port as int32
//	…       8          store timestamp   (a hole until PatchRecord)
//	…       8 or 20    store host, likewise with SysFlagStoreHostV6
//	…       4          reconsume times
//	…       8          physical offset of the half message
//	…       4 + n      body
//	…       1 or 2 + n topic: one length byte in V1, two in V2
//	…       2 + n      properties: name \x01 value \x02 …
//
// All numbers are big-endian. A Command keeps its extFields raw, in place in the read buffer, until somebody
// asks for one; the send and pull headers are read by hand-written decoders that neither build a map nor
// allocate.
package codec

// PhyOffset is a byte position in the CommitLog.
type PhyOffset int64

// QueueOffset is the index of an entry in one queue of one topic.
type QueueOffset int64
