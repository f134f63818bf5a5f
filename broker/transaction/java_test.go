package transaction

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/netip"
	"os"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
)

// javaStore unpacks a directory that a Java 5.3.3 broker left (internal/javaoracle/makestore.sh): four transactions of
// GoldenTx by PID_golden_tx, two committed, one rolled back, one open.
func javaStore(t *testing.T, name string) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewMem()
	f, err := os.Open("../../store/testdata/" + name + ".tar.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fsys
		}
		require.NoError(t, err)
		target := path.Join("/data", header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, fsys.MkdirAll(target))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(fsys, target, data, false))
	}
}

// What is open in a Java directory is asked about, and ended, here; nothing else is.
func TestJavaDirectory(t *testing.T) {
	f := func(t *testing.T, name string) {
		synctest.Test(t, func(t *testing.T) {
			fsys := javaStore(t, name)
			now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) // the bubble begins in 2000, before the records
			time.Sleep(time.Until(now))
			set := quick
			set.ReservedTime = 0
			s := open(t, setup{fs: fsys, settings: set})
			after(10 * time.Millisecond)
			require.Equal(t, map[string]int64{"GoldenTx": 1}, s.counts.counts())
			list := s.OpenTransactions(9)
			require.Len(t, list, 1)
			require.Equal(t, "PID_golden_tx", list[0].Group)
			require.EqualValues(t, 3, list[0].QueueOffset)
			require.Equal(t, []string{"tx 0", "tx 1"}, texts(s.records("GoldenTx", 0)))
			s.producer("PID_golden_tx", "p")
			after(1100 * time.Millisecond)
			asked := s.took()
			require.Equal(t, []string{"tx 3"}, names(asked))
			_, _, err := s.End(&End{Group: []byte("PID_golden_tx"), QueueOffset: asked[0].header.TranStateTableOffset,
				PhyOffset: asked[0].header.CommitLogOffset, Commit: true, FromCheck: true})
			require.NoError(t, err)
			s.stop()
			half, op := s.at()
			require.Equal(t, []int64{5, 2}, []int64{half, op})
			s = s.again(fsys)
			after(10 * time.Second)
			require.Equal(t, []string{"tx 0", "tx 1", "tx 3"}, texts(s.records("GoldenTx", 0)))
			require.Equal(t, []string{"0,1,2,", "3,4,"}, s.ops())
			require.Empty(t, s.took())
			s.stop()
		})
	}
	f(t, "java-5.3.3-clean")
	f(t, "java-5.3.3-killed")
}

// The bytes of Java's records, put by the same requests.
func TestGoldenRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		java := open(t, setup{fs: javaStore(t, "java-5.3.3-clean")})
		after(10 * time.Millisecond)
		halves := java.records(codec.HalfTopic, 0)
		finals := java.records("GoldenTx", 0)
		ops := java.records(codec.OpHalfTopic, 0)
		java.stop()
		ours := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		for i := range 3 {
			h := &halves[i]
			m := message(h)
			m.Topic, m.QueueID, m.SysFlag = "GoldenTx", 0, codec.SysFlagTransactionPrepared
			m.Properties = codec.RemoveProperty(nil, h.Properties, codec.PropTransactionID, codec.PropRealTopic,
				codec.PropRealQueueID)
			Rewrite(&m)
			put := ours.store.Append(&m)
			require.Equal(t, store.PutOK, put.Status)
			ours.Prepared(&m, "GoldenTx", &put)
			require.NoError(t, ours.end(prepared{group: "PID_golden_tx", put: put}, true))
		}
		after(4 * time.Second)
		same := func(want, got *codec.Record) {
			t.Helper()
			require.Equal(t, codec.ParseProperties(want.Properties), codec.ParseProperties(got.Properties))
			require.Len(t, got.Properties, len(want.Properties), "Java's order is that of a hash map")
			w, g := want.Message(), got.Message()
			g.PhyOffset, g.StoreTimestamp, g.Properties = w.PhyOffset, w.StoreTimestamp, w.Properties
			g.PreparedTransactionOffset = w.PreparedTransactionOffset
			require.Equal(t, w, g)
		}
		for i := range 3 {
			same(&halves[i], &ours.records(codec.HalfTopic, 0)[i])
		}
		for i := range 2 {
			same(&finals[i], &ours.records("GoldenTx", 0)[i])
		}
		op := ours.records(codec.OpHalfTopic, 0)[0]
		w, g := ops[0].Message(), op.Message()
		require.Equal(t, "0,1,2,", string(g.Body))
		require.Equal(t, w.Properties, g.Properties)
		require.Equal(t, g.BornTimestamp, g.StoreTimestamp)
		g.BornTimestamp, g.StoreTimestamp, g.PhyOffset = w.BornTimestamp, w.StoreTimestamp, w.PhyOffset
		g.BornHost, g.StoreHost = w.BornHost, w.StoreHost
		g.PreparedTransactionOffset = 0 // ours
		require.Equal(t, w, g)
		ours.stop()
	})
}

// A copy that Java put back for its immunity time is over when an op message names the first.
func TestJavaImmunityCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		java := func(name, first string) {
			props := map[string]string{codec.PropProducerGroup: "G", codec.PropTransactionPrepared: "true",
				codec.PropRealTopic: "T", codec.PropRealQueueID: "3", codec.PropCheckImmunityTimeSeconds: "60"}
			if first != "" {
				props[codec.PropTransPreparedQueueOffset], props[codec.PropTransactionCheckTimes] = first, "1"
			}
			m := &codec.Message{Topic: codec.HalfTopic, BornTimestamp: time.Now().UnixMilli(), Body: []byte(name),
				Properties: codec.EncodeProperties(props)}
			require.Equal(t, store.PutOK, s.store.Append(m).Status)
		}
		op := func(body string) {
			m := opMessage([]byte(body), 0, netip.AddrPort{}, time.Now().UnixMilli())
			require.Equal(t, store.PutOK, s.store.Append(&m).Status)
		}
		java("a", "")
		java("b", "")
		java("a", "0")
		java("b", "1")
		op("0,") // the producer ended a while its first copy had been left behind
		op("x,1x,,")
		op("1")
		java("c", "")
		java("c", "4") // the first copy of c is before the progress, of which nobody knows yet
		after(10 * time.Millisecond)
		s = s.killed()
		after(10 * time.Millisecond)
		list := s.OpenTransactions(9)
		require.Len(t, list, 1)
		require.EqualValues(t, 5, list[0].QueueOffset, "c, once")
		require.Contains(t, s.log.String(), "parts that are no offsets")
		s.stop()
	})
}

// Java's progress is behind after a kill: of the copies that its checks made the last one counts, and what it had
// committed before it made one is over.
func TestJavaCheckCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, setup{fs: newFS(t)})
		after(time.Millisecond)
		var last store.PutResult
		java := func(name, checks string, born int64) {
			props := map[string]string{codec.PropProducerGroup: "G", codec.PropTransactionPrepared: "true",
				codec.PropUniqKey: "id-" + name, codec.PropRealTopic: "T", codec.PropRealQueueID: "3"}
			if checks != "" {
				props[codec.PropTransactionCheckTimes] = checks
			}
			m := &codec.Message{Topic: codec.HalfTopic, BornTimestamp: born, Body: []byte(name),
				Properties: codec.EncodeProperties(props)}
			last = s.store.Append(m)
			require.Equal(t, store.PutOK, last.Status)
		}
		now := time.Now().UnixMilli()
		op := func(body string) {
			m := opMessage([]byte(body), 0, netip.AddrPort{}, time.Now().UnixMilli())
			require.Equal(t, store.PutOK, s.store.Append(&m).Status)
		}
		java("a", "", now)      // 0
		java("b", "", now)      // 1
		java("same", "", now)   // 2
		java("same", "", now+1) // 3: sent again by its producer
		java("a", "1", now)     // 4
		java("b", "1", now)     // 5
		m := &codec.Message{Topic: "T", QueueID: 3, SysFlag: codec.SysFlagTransactionCommit, Body: []byte("b"),
			PreparedTransactionOffset: last.PhyOffset}
		require.Equal(t, store.PutOK, s.store.Append(m).Status)
		java("a", "2", now) // 6
		java("b", "2", now) // 7: put back although it was committed
		op("5,")
		after(10 * time.Millisecond)
		s = s.killed()
		after(10 * time.Millisecond)
		var open []int64
		for _, o := range s.OpenTransactions(9) {
			open = append(open, int64(o.QueueOffset))
		}
		require.Equal(t, []int64{2, 3, 6}, open)
		s.stop()
	})
}
