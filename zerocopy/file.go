package zerocopy

// MinSendfileBytes is the shortest run that goes by sendfile; everything shorter is gathered into one writev from the
// mapping. Measured (docs/performance.md "Zero-copy rule"): a sendfile costs some µs for itself and saves the copy, so that
// a single range of 16 KiB is even and one of 32 KiB a third cheaper; of several ranges, those of 16 KiB lose. 32 KiB is one
// pull of 32 messages of 1 KiB that follow each other in the log; runs of an interleaved log are a few KiB long and never
// get here.
const MinSendfileBytes = 32 << 10

// FileOwner is an Owner whose bytes lie in a file that can be handed to sendfile.
type FileOwner interface {
	Owner
	// File tells where b, a piece of one of the owner's segments, lies: the descriptor, open as long as the caller holds
	// his reference, and the offset in the file. fd is -1 where there is none (a file in memory).
	//
	// The kernel keeps using the file's pages until the peer has acknowledged them, which may be after the reference is
	// gone. So the bytes of a file must never change once they have been handed out: a file may be deleted under a
	// transfer, but not be written anew.
	File(b []byte) (fd int, off int64)
}
