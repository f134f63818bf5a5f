package main

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/testlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPprof(t *testing.T) {
	var out testlog.Text
	stop, err := startPprof("127.0.0.1:0", slog.New(slog.NewTextHandler(&out, nil)))
	require.NoError(t, err)
	url := regexp.MustCompile(`http://[^ ]+/debug/pprof/`).FindString(out.String())
	require.NotEmpty(t, url)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, page := range []string{"", "heap", "cmdline", "goroutine?debug=1"} {
		r, err := client.Get(url + page)
		require.NoError(t, err)
		data, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusOK, r.StatusCode, page)
		require.NotEmpty(t, data)
	}
	stop()
	_, err = client.Get(url)
	require.Error(t, err)
	require.NotContains(t, out.String(), "ERROR")
}

func TestPprofAddresses(t *testing.T) {
	f := func(addr string, ok bool) {
		t.Helper()
		if err := loopback(addr); ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errUsage)
		}
	}
	f("127.0.0.1:6060", true)
	f("[::1]:6060", true)
	f("localhost:0", true)
	f(":6060", false)
	f("0.0.0.0:6060", false)
	f("10.1.2.3:6060", false)
	f("example.org:6060", false)
	f("6060", false)
	stop, err := startPprof("", slog.Default())
	require.NoError(t, err)
	stop()
}
