package fastjson

import (
	"strconv"
	"strings"
)

// resolveRefs replaces every "$ref" object below root by the value it names, or by null.
//
// First every reference finds its target by walking its path (findAll, target), through other references if
// need be. Then one depth-first walk (expand) puts targets in place, children first. A reference met while
// its target is still open on the walk would close a cycle and becomes null. Targets are shared, not
// copied: a walk over the result may see far more values than the text has, so expand adds up what each
// node costs when written out and stops at Limits.MaxGrowth. The work is linear in the text: paths together
// are no longer than it, one path step is one map look-up, and each node is expanded once.
func resolveRefs(root *Value, lim Limits, textLen int) error {
	r := resolver{
		root:    root,
		lim:     lim,
		maxSize: max(64<<10, textLen*lim.MaxGrowth),
		refs:    make(map[*Value]*refState),
		nodes:   make(map[*node]*nodeState),
		nth:     make(map[nthKey]int),
		keyed:   make(map[*node]map[string]*Value),
		ordinal: make(map[*Value]int),
	}
	r.collect(root, nil)
	for _, v := range r.order {
		if _, err := r.target(v, 0); err != nil {
			return err
		}
	}
	_, err := r.expand(root, 0)
	return err
}

const valueSize = 32 // bytes of a Value

type resolver struct {
	root    *Value
	lim     Limits
	maxSize int      // bytes the tree may stand for
	order   []*Value // references in the order of the text
	refs    map[*Value]*refState
	nodes   map[*node]*nodeState
	nth     map[nthKey]int
	ordinal map[*Value]int              // of a reference: how many with its path stood before it in the same map
	keyed   map[*node]map[string]*Value // index of objects walked through
}

type refState struct {
	target *Value
	open   bool // being looked for: meeting it again is a cycle
}

type nodeState struct {
	open   bool
	size   int // bytes with everything below, references written out
	height int // levels below
}

// nthKey counts the references of one path; owner is the object whose keys they are, nil if they are values.
type nthKey struct {
	owner *node
	path  string
}

// collect lists references in order and numbers those of equal path. The text's own nesting bounds the
// recursion.
func (r *resolver) collect(v *Value, keyOf *node) {
	if v.ref {
		k := nthKey{owner: keyOf, path: v.node.members[0].Val.text}
		r.ordinal[v] = r.nth[k]
		r.nth[k]++
		r.order = append(r.order, v)
		return
	}
	for i := range v.Items() {
		r.collect(&v.node.items[i], nil)
	}
	for i := range v.Members() {
		m := &v.node.members[i]
		r.collect(&m.Key, v.node)
		r.collect(&m.Val, nil)
	}
}

// target finds what reference v names: nil if nothing or itself. It may be a reference again.
func (r *resolver) target(v *Value, hops int) (*Value, error) {
	st := r.refs[v]
	switch {
	case st != nil && st.open:
		return nil, nil
	case st != nil:
		return st.target, nil
	case hops > r.lim.MaxDepth:
		return nil, limitError("chained references", r.lim.MaxDepth)
	}
	st = &refState{open: true}
	r.refs[v] = st
	t, err := r.walk(v.node.members[0].Val.text, r.ordinal[v], hops)
	st.open, st.target = false, t
	return t, err
}

// walk follows a path as "$.a.b[0]" from the root.
func (r *resolver) walk(path string, ordinal, hops int) (*Value, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || rest == "" {
		return nil, nil // "..", "@" and "$" name an enclosing value
	}
	at := r.root
	for rest != "" {
		for links := 0; at != nil && at.ref; links++ {
			if links > r.lim.MaxDepth {
				return nil, limitError("chained references", r.lim.MaxDepth)
			}
			var err error
			if at, err = r.target(at, hops+1); err != nil {
				return nil, err
			}
		}
		var name string
		var index bool
		if name, index, rest, ok = cutStep(rest); !ok || at == nil {
			return nil, nil
		}
		at = r.child(at, name, index, ordinal)
	}
	return at, nil
}

// cutStep takes ".name", "[n]" or "['name']" off a path; a backslash quotes the next byte of a name.
func cutStep(path string) (name string, index bool, rest string, ok bool) {
	if path[0] == '[' {
		end := strings.IndexByte(path, ']')
		if end < 0 {
			return "", false, "", false
		}
		in := path[1:end]
		if n := len(in); n >= 2 && (in[0] == '\'' || in[0] == '"') && in[n-1] == in[0] {
			return in[1 : n-1], false, path[end+1:], true
		}
		return in, true, path[end+1:], true
	}
	if path[0] != '.' {
		return "", false, "", false
	}
	var b strings.Builder
	i := 1
	for ; i < len(path) && path[i] != '.' && path[i] != '['; i++ {
		if path[i] == '\\' && i+1 < len(path) {
			i++
		}
		b.WriteByte(path[i])
	}
	return b.String(), false, path[i:], true
}

// child finds one step below v. The step "null" stands for a map key (or, from 1.2.69, an array item) whose
// place fastjson did not write down: ordinal picks it.
func (r *resolver) child(v *Value, name string, index bool, ordinal int) *Value {
	if items := v.Items(); items != nil {
		n, err := strconv.Atoi(name)
		if err != nil && name == "null" {
			n, err = ordinal%len(items), nil
		}
		if err != nil || n < 0 || n >= len(items) {
			return nil
		}
		return &items[n]
	}
	if v.node == nil {
		return nil
	}
	if found := r.member(v.node, name); found != nil || name != "null" && !index {
		return found
	}
	var keys []*Value
	for i := range v.node.members {
		if k := &v.node.members[i].Key; k.kind == Object || k.kind == Array {
			keys = append(keys, k)
			if len(keys) > ordinal {
				return k
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return keys[ordinal%len(keys)]
}

// member is Get with an index for large objects.
func (r *resolver) member(n *node, name string) *Value {
	const scanMax = 8
	if len(n.members) <= scanMax {
		return (&Value{kind: Object, node: n}).Get(name)
	}
	idx := r.keyed[n]
	if idx == nil {
		idx = make(map[string]*Value, len(n.members))
		for i := range n.members {
			if k := &n.members[i].Key; k.kind == String || k.kind == Number {
				idx[k.text] = &n.members[i].Val
			}
		}
		r.keyed[n] = idx
	}
	return idx[name]
}

// expand puts targets in place below v and gives the bytes v stands for.
func (r *resolver) expand(v *Value, depth int) (nodeState, error) {
	if depth > r.lim.MaxDepth {
		return nodeState{}, limitError("nested levels", r.lim.MaxDepth)
	}
	if v.ref {
		return r.expandRef(v, depth)
	}
	if v.node == nil {
		return nodeState{size: valueSize + len(v.text)}, nil
	}
	st := r.nodes[v.node]
	if st != nil {
		if depth+st.height > r.lim.MaxDepth {
			return nodeState{}, limitError("nested levels", r.lim.MaxDepth)
		}
		return *st, nil
	}
	st = &nodeState{open: true, size: valueSize}
	r.nodes[v.node] = st
	add := func(c *Value) error {
		cs, err := r.expand(c, depth+1)
		st.size += cs.size
		st.height = max(st.height, cs.height+1)
		if err == nil && st.size > r.maxSize {
			err = limitError("bytes once references are written out", r.maxSize)
		}
		return err
	}
	for i := range v.node.items {
		if err := add(&v.node.items[i]); err != nil {
			return *st, err
		}
	}
	for i := range v.node.members {
		m := &v.node.members[i]
		if err := add(&m.Key); err != nil {
			return *st, err
		}
		switch m.Key.kind { // a reference that came to a literal; as keys those are names
		case Null:
			m.Key = Value{kind: String, text: "null"}
		case Bool:
			m.Key.kind = String
		}
		if err := add(&m.Val); err != nil {
			return *st, err
		}
	}
	st.open = false
	return *st, nil
}

func (r *resolver) expandRef(v *Value, depth int) (nodeState, error) {
	t := r.refs[v].target
	*v = Value{} // null while its target is looked at, which also ends cycles of references alone
	if t == nil {
		return nodeState{size: valueSize}, nil
	}
	var st nodeState
	var err error
	switch {
	case t.ref:
		st, err = r.expand(t, depth+1)
	case t.node != nil && r.nodes[t.node] != nil && r.nodes[t.node].open:
		return nodeState{size: valueSize}, nil
	default:
		st, err = r.expand(t, depth)
	}
	if err == nil && (t.node == nil || !r.nodes[t.node].open) {
		*v = *t
	}
	return st, err
}
