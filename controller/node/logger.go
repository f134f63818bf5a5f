package node

import (
	"fmt"
	"log/slog"
)

// logger takes Raft's lines. What it calls info is a line for every message of an election: ours is in the shell's log.
type logger struct{ log *slog.Logger }

// Debug and the methods below are raft.Logger.
func (l logger) Debug(...any)          {}
func (l logger) Debugf(string, ...any) {}

func (l logger) Info(v ...any)                 { l.log.Debug("raft: " + fmt.Sprint(v...)) }
func (l logger) Infof(format string, v ...any) { l.log.Debug("raft: " + fmt.Sprintf(format, v...)) }

func (l logger) Warning(v ...any)                 { l.log.Warn("raft: " + fmt.Sprint(v...)) }
func (l logger) Warningf(format string, v ...any) { l.log.Warn("raft: " + fmt.Sprintf(format, v...)) }

func (l logger) Error(v ...any)                 { l.log.Error("raft: " + fmt.Sprint(v...)) }
func (l logger) Errorf(format string, v ...any) { l.log.Error("raft: " + fmt.Sprintf(format, v...)) }

// Fatal and Panic end in a panic, which the shell turns into the end of this member.
func (l logger) Fatal(v ...any)                 { panic("BUG: raft: " + fmt.Sprint(v...)) }
func (l logger) Fatalf(format string, v ...any) { panic("BUG: raft: " + fmt.Sprintf(format, v...)) }
func (l logger) Panic(v ...any)                 { panic("BUG: raft: " + fmt.Sprint(v...)) }
func (l logger) Panicf(format string, v ...any) { panic("BUG: raft: " + fmt.Sprintf(format, v...)) }
