package natsd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// RandomPort asks for any free port.
const RandomPort = server.RANDOM_PORT

// Config says how to run the server. Only StoreDir is required.
type Config struct {
	// StoreDir is where JetStream keeps streams and buckets. It is made if need be.
	StoreDir string
	// ServerName appears in logs and in the server's own tools, and must be unique
	// in a cluster. Empty is "dibs".
	ServerName string
	// Host is the address to listen on. Empty is 127.0.0.1; one that others can
	// reach needs a Password.
	Host string
	// Port for clients: 0 listens on none, so that only this process can connect
	// ([Server.InProcess]); [RandomPort] takes any. A cluster needs one.
	Port int
	// Username and Password are what clients must give; both or none.
	Username, Password string
	// MaxMemory and MaxStore limit JetStream, in bytes. 0 is the server's own
	// choice, three quarters of the machine's memory and of the free disk.
	MaxMemory, MaxStore int64
	// Cluster joins the server to others; nil stands alone.
	Cluster *Cluster
	// PingInterval is how often a quiet client is pinged; it is dropped when two
	// pings were not answered by the time of the next. 0 is 5 s.
	PingInterval time.Duration
	// StartTimeout limits how long the server may take to be ready, reading its
	// store included. 0 is 10 s.
	StartTimeout time.Duration
	// Logger gets the server's log; what it calls notices comes as debug. The zero
	// value is silent.
	Logger zerolog.Logger
}

// Cluster says how servers find each other. JetStream needs three of them.
type Cluster struct {
	// Name is the same on all servers. Required.
	Name string
	// Host and Port are where the other servers connect. An empty Host is
	// 127.0.0.1; one that others can reach needs a Password. Port is required.
	Host string
	Port int
	// Routes are the other servers, as host:port. At least one.
	Routes []string
	// Username and Password are what servers give each other; both or none.
	Username, Password string
}

// options checks the Config and says it in the server's words. The error names
// the first field that cannot be used.
func (c Config) options() (*server.Options, error) {
	if c.StoreDir == "" {
		return nil, errors.New("natsd: StoreDir: missing")
	}
	host := cmp.Or(c.Host, "127.0.0.1")
	if err := checkAddress("natsd: ", host, c.Port, c.Username, c.Password); err != nil {
		return nil, err
	}
	if c.MaxMemory < 0 || c.MaxStore < 0 {
		return nil, fmt.Errorf("natsd: MaxMemory, MaxStore: %d, %d, want 0 or more", c.MaxMemory, c.MaxStore)
	}
	if c.PingInterval < 0 {
		return nil, fmt.Errorf("natsd: PingInterval: %v, want 0 or more", c.PingInterval)
	}
	if c.StartTimeout < 0 {
		return nil, fmt.Errorf("natsd: StartTimeout: %v, want 0 or more", c.StartTimeout)
	}
	o := &server.Options{
		ServerName: cmp.Or(c.ServerName, "dibs"),
		Host:       host, Port: c.Port, DontListen: c.Port == 0,
		Username: c.Username, Password: c.Password,
		JetStream: true, StoreDir: c.StoreDir, JetStreamMaxMemory: c.MaxMemory, JetStreamMaxStore: c.MaxStore,
		PingInterval: cmp.Or(c.PingInterval, 5*time.Second), MaxPingsOut: 2,
		NoSigs: true, NoLog: true, // signals and logs are this process's own
	}
	if c.Cluster != nil {
		if c.ServerName == "" {
			return nil, errors.New("natsd: ServerName: missing, a cluster needs one for each server")
		}
		if c.Port == 0 {
			return nil, errors.New("natsd: Port: 0, a server of a cluster has to listen")
		}
		if err := c.Cluster.apply(o, "natsd: Cluster."); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// apply sets the options; where is put before the field that is wrong.
func (c Cluster) apply(o *server.Options, where string) error {
	host := cmp.Or(c.Host, "127.0.0.1")
	if c.Name == "" {
		return errors.New(where + "Name: missing")
	}
	if c.Port <= 0 {
		return fmt.Errorf("%sPort: %d, want 1 to 65535", where, c.Port)
	}
	if err := checkAddress(where, host, c.Port, c.Username, c.Password); err != nil {
		return err
	}
	if len(c.Routes) == 0 {
		return errors.New(where + "Routes: missing")
	}
	for _, r := range c.Routes {
		if _, _, err := net.SplitHostPort(r); err != nil {
			return fmt.Errorf("%sRoutes: %q, want host:port", where, r)
		}
		u := &url.URL{Scheme: "nats", Host: r}
		if c.Password != "" {
			u.User = url.UserPassword(c.Username, c.Password)
		}
		o.Routes = append(o.Routes, u)
	}
	o.Cluster = server.ClusterOpts{Name: c.Name, Host: host, Port: c.Port, Username: c.Username, Password: c.Password}
	return nil
}

// checkAddress reports the first field that makes no address, or one that is
// open to everybody.
func checkAddress(where, host string, port int, user, password string) error {
	if port < RandomPort || port > 65535 {
		return fmt.Errorf("%sPort: %d, want -1 (any) to 65535", where, port)
	}
	if (user == "") != (password == "") {
		return errors.New(where + "Username, Password: one of them without the other")
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) && password == "" && port != 0 {
		return fmt.Errorf("%sPassword: missing, %s can be reached from elsewhere", where, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return nil
}
