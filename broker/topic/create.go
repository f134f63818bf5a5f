package topic

import (
	"fmt"

	"skylark/codec"
	"skylark/codec/body"
)

// CreateRequest is a send to a topic that does not exist.
type CreateRequest struct {
	Topic        string
	DefaultTopic string // the template's name, usually TBW102
	QueueNums    int    // what the client asks for
	UnitMode     bool
}

// CreateInSend makes a topic for its first message after the template that the client names (Java
// createTopicInSendMessageMethod, spec messages.md §10). The error says why not.
func (m *Manager) CreateInSend(r CreateRequest) (*Topic, error) {
	if err := codec.ValidateTopic(r.Topic); err != nil {
		return nil, err
	}
	if codec.IsSendForbidden(r.Topic) {
		return nil, fmt.Errorf("%w: %s", ErrSystem, r.Topic)
	}
	return m.create(r.Topic, func() (body.TopicConfig, error) {
		template := m.Get(r.DefaultTopic)
		switch {
		case template == nil && r.DefaultTopic == codec.AutoCreateTopicKey:
			return body.TopicConfig{}, fmt.Errorf("%w: automatic creation is off (autoCreateTopicEnable)", ErrNotExist)
		case template == nil:
			return body.TopicConfig{}, fmt.Errorf("%w: the default topic %s", ErrNotExist, r.DefaultTopic)
		case template.Config.Perm&codec.PermInherit == 0:
			return body.TopicConfig{}, fmt.Errorf("%w: the default topic %s cannot be inherited from, its perm is %d",
				ErrNotExist, r.DefaultTopic, template.Config.Perm)
		}
		queues := max(min(r.QueueNums, int(template.Config.WriteQueueNums)), 1) // Java: 0, which nobody can send to
		c := simple(r.Topic, queues, template.Config.Perm&^codec.PermInherit)
		c.TopicFilterType = template.Config.TopicFilterType
		if r.UnitMode {
			c.TopicSysFlag = codec.TopicFlagUnit
		}
		return c, nil
	})
}

// CreateInSendBack makes a retry or dead letter topic (Java createTopicInSendMessageBackMethod).
func (m *Manager) CreateInSendBack(name string, queueNums int, perm int32, unit, order bool) (*Topic, error) {
	if t := m.Get(name); t != nil {
		return t, nil
	}
	if err := codec.ValidateTopic(name); err != nil {
		return nil, err
	}
	return m.create(name, func() (body.TopicConfig, error) {
		return (&SendBack{name, queueNums, perm, unit, order}).config(), nil
	})
}

// SendBack is a retry or dead letter topic that is to be made.
type SendBack struct {
	Name        string
	QueueNums   int
	Perm        int32
	Unit, Order bool
}

func (s *SendBack) config() body.TopicConfig {
	c := simple(s.Name, s.QueueNums, s.Perm)
	c.Order = s.Order
	if s.Unit {
		c.TopicSysFlag = codec.TopicFlagUnitSub
	}
	return c
}

// CreateAllInSendBack is CreateInSendBack for many: the file, which grows with the topics, is written once for all that do
// not exist. Without an error all exist.
func (m *Manager) CreateAllInSendBack(list []SendBack) error {
	for i := range list {
		if err := codec.ValidateTopic(list[i].Name); err != nil {
			return err
		}
	}
	m.mu.Lock()
	var missing []body.TopicConfig
	for i := range list {
		if m.Get(list[i].Name) == nil {
			missing = append(missing, list[i].config())
		}
	}
	var made []*Topic
	var err error
	switch {
	case len(missing) == 0:
	case m.Len()+len(missing) > MaxAutoTopics:
		err = fmt.Errorf("%w: there are %d, none is made automatically", ErrTooMany, m.Len())
	default:
		made, err = m.put(missing...)
	}
	m.mu.Unlock()
	if err != nil || len(made) == 0 {
		return err
	}
	m.o.Log.Info("topics created", "topics", len(made), "first", made[0].Name)
	m.onChange(made)
	return nil
}

// CreatePopRetry makes the topic that POP returns messages to, or a group's dead letters, with one queue (Java
// PopReviveService.addRetryTopicIfNotExist). Its name is not checked: that of a V2 retry topic has a '+'.
func (m *Manager) CreatePopRetry(name string) (*Topic, error) {
	if t := m.Get(name); t != nil {
		return t, nil
	}
	return m.create(name, func() (body.TopicConfig, error) {
		if len(name) > codec.MaxRetryTopicLength {
			return body.TopicConfig{}, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(name), codec.MaxRetryTopicLength)
		}
		return simple(name, 1, codec.PermRead|codec.PermWrite), nil
	})
}

// create makes a topic unless somebody else just did, and tells of it once it is written.
func (m *Manager) create(name string, config func() (body.TopicConfig, error)) (*Topic, error) {
	m.mu.Lock()
	if t := m.Get(name); t != nil {
		m.mu.Unlock()
		return t, nil
	}
	c, err := config()
	if err == nil && m.Len() >= MaxAutoTopics {
		err = fmt.Errorf("%w: there are %d, none is made automatically", ErrTooMany, m.Len())
	}
	var made []*Topic
	if err == nil {
		made, err = m.put(c)
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m.o.Log.Info("topic created", "topic", name, "queues", c.WriteQueueNums, "perm", c.Perm)
	m.onChange(made)
	return made[0], nil
}

// UpdateOrderConfig sets the order flag of the topics that the name server's ORDER_TOPIC_CONFIG names (Java
// updateOrderTopicConfig). It clears none: a tool may have set it on this broker.
func (m *Manager) UpdateOrderConfig(table map[string]string) error {
	var names []string
	for name := range table {
		names = append(names, name)
	}
	return m.SetOrder(names...)
}

// SetOrder marks topics as ordered; those that are, or do not exist, are passed over.
func (m *Manager) SetOrder(names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var differ []body.TopicConfig
	for _, name := range names {
		if t := m.Get(name); t != nil && !t.Order {
			c := t.Config
			c.Order = true
			differ = append(differ, c)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	_, err := m.put(differ...)
	return err
}
