package config

// AuthConfig is Java's org.apache.rocketmq.auth.config.AuthConfig: users and ACLs of 5.3, read from
// broker.conf. Nothing of it can be changed by command.
type AuthConfig struct {
	// ConfigName: broker name; set by the broker.
	ConfigName string `prop:"configName" is:"fixed"`
	// ClusterName: cluster name; set by the broker.
	ClusterName string `prop:"clusterName" is:"fixed"`
	// AuthConfigPath: directory of users and ACLs; empty means storePathRootDir/config.
	AuthConfigPath string `prop:"authConfigPath" is:"fixed"`
	// AuthenticationEnabled: every request must be signed by a known user.
	AuthenticationEnabled bool `prop:"authenticationEnabled" is:"fixed"`
	// AuthenticationProvider: Java class; has no effect.
	AuthenticationProvider string `prop:"authenticationProvider" is:"fixed"`
	// AuthenticationMetadataProvider: Java class; any value keeps users locally.
	AuthenticationMetadataProvider string `prop:"authenticationMetadataProvider" is:"fixed"`
	// AuthenticationStrategy: Java class; a name with Stateful checks a connection once, else each request.
	AuthenticationStrategy string `prop:"authenticationStrategy" is:"fixed"`
	// AuthenticationWhitelist: request codes served unsigned, ',' between.
	AuthenticationWhitelist string `prop:"authenticationWhitelist" is:"fixed"`
	// InitAuthenticationUser: first super user as JSON {"username":"…","password":"…"}.
	InitAuthenticationUser string `prop:"initAuthenticationUser" is:"fixed secret"`
	// InnerClientAuthenticationCredentials: the broker's own credentials as JSON
	// {"accessKey":"…","secretKey":"…"}.
	InnerClientAuthenticationCredentials string `prop:"innerClientAuthenticationCredentials" is:"fixed secret"`
	// AuthorizationEnabled: every request must be allowed by an ACL.
	AuthorizationEnabled bool `prop:"authorizationEnabled" is:"fixed"`
	// AuthorizationProvider: Java class; has no effect.
	AuthorizationProvider string `prop:"authorizationProvider" is:"fixed"`
	// AuthorizationMetadataProvider: Java class; any value keeps ACLs locally.
	AuthorizationMetadataProvider string `prop:"authorizationMetadataProvider" is:"fixed"`
	// AuthorizationStrategy: Java class; a name with Stateful decides once per connection, else each
	// request.
	AuthorizationStrategy string `prop:"authorizationStrategy" is:"fixed"`
	// AuthorizationWhitelist: request codes served without an ACL, ',' between.
	AuthorizationWhitelist string `prop:"authorizationWhitelist" is:"fixed"`
	// MigrateAuthFromV1Enabled: take plain_acl.yml over at start.
	MigrateAuthFromV1Enabled bool `prop:"migrateAuthFromV1Enabled" is:"fixed"`
	// UserCacheMaxNum: users cached.
	UserCacheMaxNum int `prop:"userCacheMaxNum" def:"1000" is:"1.."`
	// UserCacheExpiredSecond: seconds until a cached user is dropped.
	UserCacheExpiredSecond int `prop:"userCacheExpiredSecond" def:"600" is:"1.."`
	// UserCacheRefreshSecond: seconds until a cached user is read again.
	UserCacheRefreshSecond int `prop:"userCacheRefreshSecond" def:"60" is:"1.."`
	// AclCacheMaxNum: ACLs cached.
	AclCacheMaxNum int `prop:"aclCacheMaxNum" def:"1000" is:"1.."`
	// AclCacheExpiredSecond: seconds until a cached ACL is dropped.
	AclCacheExpiredSecond int `prop:"aclCacheExpiredSecond" def:"600" is:"1.."`
	// AclCacheRefreshSecond: seconds until a cached ACL is read again.
	AclCacheRefreshSecond int `prop:"aclCacheRefreshSecond" def:"60" is:"1.."`
	// StatefulAuthenticationCacheMaxNum: connections remembered by the stateful strategy.
	StatefulAuthenticationCacheMaxNum int `prop:"statefulAuthenticationCacheMaxNum" def:"10000" is:"1.."`
	// StatefulAuthenticationCacheExpiredSecond: seconds they are remembered.
	StatefulAuthenticationCacheExpiredSecond int `prop:"statefulAuthenticationCacheExpiredSecond" def:"60"`
	// StatefulAuthorizationCacheMaxNum: decisions remembered by the stateful strategy.
	StatefulAuthorizationCacheMaxNum int `prop:"statefulAuthorizationCacheMaxNum" def:"10000" is:"1.."`
	// StatefulAuthorizationCacheExpiredSecond: seconds they are remembered.
	StatefulAuthorizationCacheExpiredSecond int `prop:"statefulAuthorizationCacheExpiredSecond" def:"60"`
}
