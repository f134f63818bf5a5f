// Command capture records what real RocketMQ programs say to each other, and turns a recording into golden
// files.
//
//	capture record -out FILE [-label-file FILE] [-route NAME=LISTEN,TARGET]...
//	capture list   -in FILE,... [-label REGEXP]
//	capture export -in FILE,... -wire DIR [-records DIR]
//
// record is a TCP proxy. Each route accepts on LISTEN and dials TARGET; bytes are passed on as they come, and
// beside that every direction is cut at the 4-byte length into frames, which are appended to FILE as JSON
// lines (see Frame). To sit between Java programs without rewriting a byte, the Java broker listens on one
// loopback address and advertises another: bindAddress=127.0.0.1, brokerIP1=127.0.0.2, listenPort=P, and a
// route 127.0.0.2:P,127.0.0.1:P.
//
// A connection is labelled with the first line of the label file at the time it is accepted, so a driver
// script that runs one client after the other only has to write the client's name there. A connection that
// sends REGISTER_BROKER (103) is a broker whatever the file says.
//
// export keeps, for each label, request code, direction and variant, the first frame that is small and holds
// no path of the recording machine. DIR/<label>/<code>-<name>-<req|resp>[-variant].bin is the frame with its
// length field, the .txt beside it the same for people: header fields, then the body as JSON text, decoded
// messages or hex. The decoders here are written against the format notes and share no code with package
// codec, so that the golden text is a second opinion on what codec reads from the same bytes.
package main
