// Package fastjson reads and writes the JSON dialect of Alibaba fastjson 1.x, which Java RocketMQ uses for
// every JSON body of the remoting protocol and for the files under store/config (spec bodies.md §1,
// store.md §10). It imports the standard library only and does no I/O.
//
// # What is read
//
// [Parse] takes all standard JSON and, beyond it, what fastjson 1.2.69 and 1.2.83 were seen to take:
//
//	{0:"a",-1:"b",1.5:"c"}           unquoted numbers as keys (Map<Long,…>)
//	{{"queueId":1}:5, [1]:2}         objects and arrays as keys (Map<MessageQueue,…>)
//	{'a':'b', c_1:2, $d:3, null:4}   single quotes, bare names, literals as keys
//	{"a":{…},"b":{"$ref":"$.a"}}     references to a value written earlier, also as a key
//	[1,,2,] {,"a":1,}                stray commas
//	+1 01 1. 1L 1.5D                 loose numbers (the type suffix is dropped)
//	"\x41 \v \0…\7 \'"               extra escapes; raw control characters inside strings
//	/* c */ // c                     comments, wherever blanks may stand
//	undefined NaN                    read as null
//
// Blanks are space, TAB, CR, LF, FF, BS; a leading BOM and NUL or SUB (0x1A) bytes behind the value are
// skipped; anything else behind the value is an error. Not taken, though fastjson does: missing commas ([1
// 2]), the type-carrying forms (Set[…], new Date(…), x'4142') and automatic types: "@type" is an ordinary
// key here.
//
// A reference is an object whose only member is "$ref" with a string. "$.a.b[0]" and "$[0]" walk down from
// the root ('\' quotes a special character of a key); "$", ".." and "@" name an enclosing value, so they
// and any path that leads back into itself resolve to null: a tree from Parse has no cycles. Where fastjson
// wrote the shared object as a map key, the path ends in ".null" (or "[null]") and does not tell which key
// it was (Java then loses entries); here the n-th such reference stands for the n-th object key of that
// map, which is right for ConsumerRunningInfo and GetConsumerStatusBody, whose maps have the same keys in
// the same order.
//
// Resolved values share memory, so a small text can stand for a huge tree. [Limits] bounds the bytes, the
// nesting and the number of values, the last two after resolving.
//
// # What is bound
//
// [Unmarshal] fills Go values as fastjson fills beans: exact member names win, then names that agree when
// case, '_' and '-' are ignored (also with an "is" in front of a boolean); unknown members are ignored;
// numbers may be quoted, whole numbers may be 5.0; a single value stands for a list of one; []byte is
// Base64; map keys may be structs, written as an object or as a string that holds its JSON. See Unmarshal
// for the whole table.
//
// # What is written
//
// [Marshal] writes the byte shape of JSON.toJSONString: compact, fields A to Z, nil left out, integer and
// object keys unquoted, doubles as Double.toString. Map keys are sorted, where Java gives HashMap order, so
// equal values give equal bytes. [MarshalStandard] is the route body for clients from 4.9.4 on
// (SerializerFeature BrowserCompatible, QuoteFieldNames, MapSortField); [MarshalPretty] is the form of the
// config files. References are never written.
package fastjson
