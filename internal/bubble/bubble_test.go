package bubble

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// helper makes the test's own binary a process in which a bubble never ends.
const helper = "BUBBLE_HELPER"

func TestTimeMovesOn(t *testing.T) {
	Test(t, t.Name(), func(t *testing.T) {
		began := time.Now()
		time.Sleep(1000 * Patience)
		if d := time.Since(began); d != 1000*Patience {
			t.Errorf("%v have passed", d)
		}
	})
}

func circle() {
	for {
		runtime.Gosched()
	}
}

func TestCircleEndsTheProcess(t *testing.T) {
	if os.Getenv(helper) != "" {
		test(t, "the circle", 100*time.Millisecond, func(*testing.T) { circle() })
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestCircleEndsTheProcess$")
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "the circle does not end") {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, stacks, _ := strings.Cut(string(out), "stands still\n"); !strings.Contains(strings.Split(stacks, "\n\n")[0], "circle") {
		t.Errorf("first is shown:\n%s", stacks)
	}
}
