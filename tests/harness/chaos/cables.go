package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"idempotencyd/tests/harness/port"
	"idempotencyd/tests/harness/replica"
)

// cables are a network namespace with two ways out: one to the database, one to the callers. A pulled cable is silent: nobody is
// told that packets are lost. Needs root and ip(8). nil: everything is on the loopback address.
type cables struct {
	name     string
	database cable
	callers  cable
}

type cable struct {
	device          string // ours; the other end has a "p" behind its name
	outside, inside string // addresses
}

// Not in everybody's PATH.
const ipProgram = "/usr/sbin/ip"

func ip(ctx context.Context, arguments ...string) error {
	output, err := exec.CommandContext(ctx, ipProgram, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

func newCables(ctx context.Context) (*cables, error) {
	// Names of devices are short, and addresses few: by the process id, so that two runs do not meet.
	number := os.Getpid() % 16384
	address := func(last int) string { return fmt.Sprintf("10.213.%d.%d", number/64, (number%64)*4+last) }
	callers := func(last int) string { return fmt.Sprintf("10.214.%d.%d", number/64, (number%64)*4+last) }
	c := &cables{
		name:     fmt.Sprint("chaos", number),
		database: cable{fmt.Sprint("chd", number), address(1), address(2)},
		callers:  cable{fmt.Sprint("chc", number), callers(1), callers(2)},
	}
	// One of this name is left over from a process that was killed and had the same number.
	_ = ip(ctx, "netns", "del", c.name)
	if err := ip(ctx, "netns", "add", c.name); err != nil {
		return nil, err
	}
	err := ip(ctx, "-n", c.name, "link", "set", "lo", "up")
	for _, one := range []cable{c.database, c.callers} {
		err = errors.Join(err, one.lay(ctx, c.name))
	}
	if err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

func (c cable) lay(ctx context.Context, namespace string) error {
	for _, arguments := range [][]string{
		{"link", "add", c.device, "type", "veth", "peer", "name", c.device + "p", "netns", namespace},
		{"addr", "add", c.outside + "/30", "dev", c.device},
		{"link", "set", c.device, "up"},
		{"-n", namespace, "addr", "add", c.inside + "/30", "dev", c.device + "p"},
		{"-n", namespace, "link", "set", c.device + "p", "up"},
	} {
		if err := ip(ctx, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// pullDatabase takes the replica's database away, in silence.
func (c *cables) pullDatabase(ctx context.Context) error {
	return ip(ctx, "link", "set", c.database.device, "down")
}

// plug puts it back.
func (c *cables) plug(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return ip(ctx, "link", "set", c.database.device, "up")
}

func (c *cables) remove() error {
	if c == nil {
		return nil
	}
	// Its devices go with it.
	return ip(context.Background(), "netns", "del", c.name)
}

// place puts a replica into the namespace.
func (c *cables) place(options replica.Options) replica.Options {
	if c != nil {
		options.Via = []string{ipProgram, "netns", "exec", c.name}
		options.Host = c.callers.inside
	}
	return options
}

// listen listens for the replica that is made next, where it can reach the database's lines.
func (w *World) listen() (net.Listener, error) {
	if w.cables == nil {
		return port.Listen()
	}
	return net.Listen("tcp", net.JoinHostPort(w.cables.database.outside, "0"))
}

// HasNamespaces tells whether this process may make network namespaces.
func HasNamespaces() bool {
	if os.Geteuid() != 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	c, err := newCables(ctx)
	return err == nil && c.remove() == nil
}
