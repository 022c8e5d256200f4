//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package natsd

import "os"

// lockDir makes dir if need be. There is no lock here that ends with its
// process, so taking a directory twice is not noticed.
func lockDir(dir string) (unlock func(), err error) {
	return func() {}, os.MkdirAll(dir, 0o700)
}
