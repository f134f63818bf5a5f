package replicas

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"skylark/internal/vfs"
)

// ErrIdentity marks a file that does not tell this broker's id.
var ErrIdentity = errors.New("replicas: the broker identity cannot be used")

// TempSuffix is behind the path of brokerIdentity while an id is applied for.
const TempSuffix = "-temp"

// Identity is the id that the controllers gave to a broker (Java BrokerMetadata, TempBrokerMetadata).
type Identity struct {
	Cluster, Name string
	ID            int64  // 0: none
	CheckCode     string // host:port;ms of an id that is being applied for, "" of one that was given
}

// String is the content of the file.
func (i Identity) String() string {
	s := i.Cluster + "#" + i.Name + "#" + strconv.FormatInt(i.ID, 10)
	if i.CheckCode != "" {
		s += "#" + i.CheckCode
	}
	return s
}

// LoadIdentity reads brokerIdentity (path), or brokerIdentity-temp of an id that was not confirmed yet. A missing or empty
// file is none. One of another cluster or broker name is an error that says so (ErrIdentity): the directory belongs to
// another broker.
func LoadIdentity(fsys vfs.FS, path, cluster, name string) (Identity, error) {
	for _, temp := range []bool{false, true} {
		file := path
		if temp {
			file += TempSuffix
		}
		data, err := vfs.ReadFile(fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Identity{}, fmt.Errorf("replicas: %w", err)
		}
		text := strings.TrimSpace(string(data))
		if text == "" {
			continue
		}
		id, err := parseIdentity(text, cluster, name, temp)
		if err != nil {
			return Identity{}, fmt.Errorf("%w: %s: %w", ErrIdentity, file, err)
		}
		return id, nil
	}
	return Identity{}, nil
}

func parseIdentity(text, cluster, name string, temp bool) (Identity, error) {
	rest, ok := strings.CutPrefix(text, cluster+"#"+name+"#")
	if !ok {
		return Identity{}, fmt.Errorf("it is %q, want brokerClusterName %q and brokerName %q", text, cluster, name)
	}
	number, code, hasCode := strings.Cut(rest, "#")
	id, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || id < 1:
		return Identity{}, fmt.Errorf("%q is no broker id", number)
	case temp && (!hasCode || code == ""):
		return Identity{}, fmt.Errorf("%q has no check code", text)
	case !temp:
		code = ""
	}
	return Identity{Cluster: cluster, Name: name, ID: id, CheckCode: code}, nil
}

// Save writes the file that i belongs in, durably; that of an id that was given takes the temporary one away.
func (i Identity) Save(fsys vfs.FS, path string) error {
	if i.CheckCode != "" {
		return vfs.WriteFileAtomic(fsys, path+TempSuffix, []byte(i.String()), false)
	}
	if err := vfs.WriteFileAtomic(fsys, path, []byte(i.String()), false); err != nil {
		return err
	}
	if err := fsys.Remove(path + TempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replicas: %w", err)
	}
	return nil
}
