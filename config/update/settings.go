package update

import (
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync"

	"skylark/codec"
	"skylark/config"
	"skylark/internal/vfs"
	"skylark/reactor/rpc"
)

// Settings are those of one server, with the file in which changes are kept.
type Settings struct {
	Set *config.Set
	FS  vfs.FS
	Log *slog.Logger
	// File is where the settings are saved, BlackList the keys of configBlackList. Both are asked at each change.
	File      func() string
	BlackList func() string

	changing sync.Mutex // from a change to its file
}

// Show answers with all settings, secrets hidden.
func (s *Settings) Show(r *rpc.Request) { r.ReplyBody([]byte(s.Set.Describe())) }

// Change takes over the properties in the body of the request, all or none, saves them and says which of them wait for a
// restart.
func (s *Settings) Change(r *rpc.Request) {
	if len(r.Cmd.Body) == 0 {
		r.OK()
		return
	}
	f, err := config.Parse(string(r.Cmd.Body), "body")
	if err != nil {
		r.ReplyError(codec.RespSystemError, "string2Properties error: "+err.Error())
		return
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	changes, err := s.Set.Apply(f.Map(), config.BlackList(s.BlackList()))
	var forbidden *config.ForbiddenError
	switch {
	case errors.As(err, &forbidden):
		r.ReplyError(codec.RespNoPermission, "Can not update config in black list. "+strings.Join(forbidden.Keys, ", "))
		return
	case err != nil:
		r.ReplyError(codec.RespInvalidParameter, err.Error())
		return
	}
	if len(changes) == 0 {
		r.OK()
		return
	}
	for _, c := range changes {
		s.Log.Info("setting changed", "key", c.Key, "old", c.Old, "new", c.New, "live", c.Live, "remote", r.Conn().RemoteAddr())
	}
	if err := s.save(); err != nil {
		r.ReplyError(codec.RespSystemError, "the change is in force but could not be saved: "+err.Error())
		return
	}
	remark := ""
	if keys := changes.RestartKeys(); len(keys) > 0 {
		remark = "after a restart: " + strings.Join(keys, ", ")
	}
	r.Reply(codec.NewResponse(r.Cmd, codec.RespSuccess, remark))
}

// save writes the file, and keeps the former one as .bak.
func (s *Settings) save() error {
	file := s.File()
	if err := vfs.MkdirAllSync(s.FS, path.Dir(file)); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(s.FS, file, []byte(s.Set.Text()), true)
}
