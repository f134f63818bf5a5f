package controller

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"skylark/config"
)

// member is one controller of the group.
type member struct {
	id   string // n0 of "n0-host:port"; host:port of jRaftInitConf
	addr string // host:port where it serves requests and Raft
}

// membership is who belongs to the group.
type membership struct {
	group   string
	self    member
	members []member // in the order of the configuration
}

// membersOf reads the keys of Java's two kinds of controllers; both are served alike here.
func membersOf(c *config.ControllerConfig) (membership, error) {
	if strings.EqualFold(c.ControllerType, "jRaft") {
		return jRaftMembers(c)
	}
	ms := membership{group: c.ControllerDLegerGroup}
	if c.ControllerDLegerPeers == "" {
		return ms, missing("controllerDLegerPeers", "a list as n0-host:port;n1-host:port")
	}
	for part := range strings.SplitSeq(c.ControllerDLegerPeers, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		id, addr, ok := strings.Cut(part, "-")
		if !ok || id == "" {
			return ms, fmt.Errorf("controller: controllerDLegerPeers: %q is not id-host:port", part)
		}
		if err := config.CheckAddr(addr); err != nil {
			return ms, fmt.Errorf("controller: controllerDLegerPeers: %w", err)
		}
		ms.members = append(ms.members, member{id, addr})
	}
	if c.ControllerDLegerSelfId == "" {
		return ms, missing("controllerDLegerSelfId", "one of the ids in controllerDLegerPeers")
	}
	if ms.group == "" {
		return ms, missing("controllerDLegerGroup", "a name")
	}
	return ms, ms.find(c.ControllerDLegerSelfId, "controllerDLegerSelfId", "controllerDLegerPeers")
}

func jRaftMembers(c *config.ControllerConfig) (membership, error) {
	ms := membership{group: c.JRaftGroupId}
	split := func(list string) []string {
		return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	}
	ids, addrs := split(c.JRaftInitConf), split(c.JRaftControllerRPCAddr)
	if len(ids) != len(addrs) {
		return ms, fmt.Errorf("controller: jRaftInitConf has %d members, jRaftControllerRPCAddr %d", len(ids), len(addrs))
	}
	for i, addr := range addrs {
		if err := config.CheckAddr(addr); err != nil {
			return ms, fmt.Errorf("controller: jRaftControllerRPCAddr: %w", err)
		}
		ms.members = append(ms.members, member{ids[i], addr})
	}
	return ms, ms.find(c.JRaftServerId, "jRaftServerId", "jRaftInitConf")
}

func missing(key, want string) error {
	return fmt.Errorf("controller: %s is missing, want %s", key, want)
}

func (ms *membership) find(self, selfKey, listKey string) error {
	i := slices.IndexFunc(ms.members, func(m member) bool { return m.id == self })
	if i < 0 {
		return fmt.Errorf("controller: %s=%s is not in %s=%s", selfKey, self, listKey, ms)
	}
	ms.self = ms.members[i]
	return nil
}

func (ms *membership) ids() (ids []string) {
	for _, m := range ms.members {
		ids = append(ids, m.id)
	}
	return ids
}

// String is Java's list of peers: id:host:port with a ; behind each.
func (ms *membership) String() string {
	var b strings.Builder
	for _, m := range ms.members {
		b.WriteString(m.id + ":" + m.addr + ";")
	}
	return b.String()
}

// listenAddr is the own port on the address that the configuration binds to, as Java's DLedgerServer takes it.
func (ms *membership) listenAddr(bind string) string {
	_, port, err := net.SplitHostPort(ms.self.addr)
	if err != nil {
		panic("BUG: controller: " + err.Error()) // checked by config.CheckAddr
	}
	return net.JoinHostPort(bind, port)
}
