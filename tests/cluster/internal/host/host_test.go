package host

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestImportedNames(t *testing.T) {
	output := "unpacking localhost/a:1 (sha256:01)...done\nunpacking localhost/b:1 (sha256:02)...done\n"
	if got := importedNames(output); !slices.Equal(got, []string{"localhost/a:1", "localhost/b:1"}) {
		t.Errorf("got %q", got)
	}
}

func TestAFileThatBreaksOffLeavesTheOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file")
	if err := WriteFile(path, strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	broken := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errors.New("cut")))
	if err := WriteFile(path, broken); err == nil {
		t.Error("no error")
	}
	if content, _ := os.ReadFile(path); string(content) != "old" {
		t.Errorf("got %q", content)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("got %v", entries)
	}
}

func TestAFailedCommandTellsItsOutput(t *testing.T) {
	err := Quietly(exec.Command("sh", "-c", "echo the reason >&2; exit 3"))
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}
