package main

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxHexBytes bounds a hex dump in a text twin; the rest is in the .bin.
	maxHexBytes = 256
	// maxInflated bounds what a compressed body may grow to while it is described.
	maxInflated = 1 << 20
)

func ipText(b []byte) string {
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return "?"
	}
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// commandText describes a frame for people. reqCode is the request's code: a response carries only its own.
func commandText(title string, frame []byte, cmd *command, reqCode int) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n", title)
	kind := "JSON"
	if cmd.binary {
		kind = "ROCKETMQ"
	}
	fmt.Fprintf(&w, "frame %d bytes, header %s %d bytes, body %d bytes\n", len(frame), kind, len(cmd.header),
		len(cmd.body))
	fmt.Fprintf(&w, "code %d %s\nlanguage %s\nversion %d\nopaque %d\nflag %d\n", cmd.code, codeName(cmd),
		cmd.language, cmd.version, cmd.opaque, cmd.flag)
	if cmd.remark != nil {
		fmt.Fprintf(&w, "remark %q\n", *cmd.remark)
	}
	for _, k := range cmd.extKeys() {
		fmt.Fprintf(&w, "ext %s = %s\n", k, printable(cmd.ext[k]))
	}
	if cmd.binary {
		w.WriteString("header hex\n" + indent(dump(cmd.header)))
	} else {
		fmt.Fprintf(&w, "header text\n  %s\n", cmd.header)
	}
	if len(cmd.body) > 0 {
		w.WriteString(bodyText(cmd, reqCode))
	}
	return w.String()
}

func codeName(cmd *command) string {
	names := requestNames
	if cmd.isResponse() {
		names = responseNames
	}
	if n := names[cmd.code]; n != "" {
		return strings.ToUpper(strings.ReplaceAll(n, "-", "_"))
	}
	return "?"
}

func bodyText(cmd *command, reqCode int) string {
	b := cmd.body
	if reqCode == 320 && !cmd.isResponse() {
		return batchText(b)
	}
	if all := splitRecords(b); len(all) > 0 {
		var w strings.Builder
		fmt.Fprintf(&w, "body %d message(s)\n", len(all))
		for _, r := range all {
			w.WriteString(indent(recordText(r)))
		}
		return w.String()
	}
	if plain, err := inflate(b); err == nil {
		return fmt.Sprintf("body zlib, %d bytes inflated\n%s", len(plain), indent(dump(plain)))
	}
	if isText(b) {
		return "body text\n" + indent(string(b)+"\n")
	}
	return "body hex\n" + indent(dump(b))
}

// batchText describes the client's batch encoding: size, magic, crc, flag, body, properties for each message.
func batchText(b []byte) string {
	var w strings.Builder
	w.WriteString("body batch\n")
	for len(b) >= 22 {
		size := int(binary.BigEndian.Uint32(b))
		if size < 22 || size > len(b) {
			break
		}
		body, rest, err := lengthed(b[16:size], 4)
		if err != nil {
			break
		}
		props, _, err := lengthed(rest, 2)
		if err != nil {
			break
		}
		fmt.Fprintf(&w, "  entry size %d magic %#x crc %d flag %d\n", size, binary.BigEndian.Uint32(b[4:]),
			binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]))
		fmt.Fprintf(&w, "    body %s\n%s", printable(string(body)), indent(propertiesText(props)))
		b = b[size:]
	}
	if len(b) > 0 {
		fmt.Fprintf(&w, "  %d bytes left\n", len(b))
	}
	return w.String()
}

func recordText(r record) string {
	var w strings.Builder
	fmt.Fprintf(&w, "message size %d magic %#X bodyCRC %d queueId %d flag %d\n", r.size, r.magic, r.crc,
		r.queueID, r.flag)
	fmt.Fprintf(&w, "  queueOffset %d phyOffset %d sysFlag %#x reconsumeTimes %d preparedOffset %d\n",
		r.queueOff, r.phyOff, r.sysFlag, r.reconsume, r.prepared)
	fmt.Fprintf(&w, "  bornTimestamp %d bornHost %s storeTimestamp %d storeHost %s\n", r.bornMillis,
		r.bornHost, r.storeMs, r.storeHost)
	fmt.Fprintf(&w, "  topic %s\n%s", r.topic, propertiesText(r.properties))
	if isText(r.body) && len(r.body) <= 2*maxHexBytes {
		fmt.Fprintf(&w, "  body %d bytes %s\n", len(r.body), printable(string(r.body)))
	} else {
		fmt.Fprintf(&w, "  body %d bytes\n%s", len(r.body), indent(indent(dump(r.body))))
	}
	return w.String()
}

func propertiesText(b []byte) string {
	var w strings.Builder
	end := "no final separator"
	if bytes.HasSuffix(b, []byte{2}) {
		end = "final separator"
	}
	fmt.Fprintf(&w, "  properties %d bytes, %s\n", len(b), end)
	for _, p := range splitProperties(b) {
		fmt.Fprintf(&w, "    %s = %s\n", printable(p[0]), printable(p[1]))
	}
	return w.String()
}

func inflate(b []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxInflated))
}

// isText tells whether b is UTF-8 with nothing but printable characters and line ends.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	other := func(c rune) bool { return c != '\n' && c != '\t' && c != '\r' && !unicode.IsPrint(c) }
	return bytes.IndexFunc(b, other) < 0
}

// printable leaves readable text alone and quotes the rest; long values are cut.
func printable(s string) string {
	if len(s) > 2*maxHexBytes {
		s = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:maxHexBytes], ""), len(s))
	}
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func dump(b []byte) string {
	more := ""
	if len(b) > maxHexBytes {
		more = fmt.Sprintf("… %d bytes more\n", len(b)-maxHexBytes)
		b = b[:maxHexBytes]
	}
	return hex.Dump(b) + more
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}
