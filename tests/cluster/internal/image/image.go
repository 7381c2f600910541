// Package image writes container images of one static program.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime"
)

// Write writes a docker archive of an image that is one static program:
// https://github.com/moby/docker-image-spec. Equal inputs give equal bytes.
func Write(out io.Writer, reference, name string, program []byte) error {
	var layer bytes.Buffer
	if err := writeTar(&layer, 0o755, map[string][]byte{name: program}, name); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + name}, "User": "65535:65535"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	if err != nil {
		return err
	}
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{reference}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	files := map[string][]byte{"layer.tar": layer.Bytes(), configName: config, "manifest.json": manifest}
	return writeTar(out, 0o644, files, "layer.tar", configName, "manifest.json")
}

func writeTar(out io.Writer, mode int64, files map[string][]byte, order ...string) error {
	archive := tar.NewWriter(out)
	for _, name := range order {
		header := &tar.Header{Name: name, Mode: mode, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	return archive.Close()
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
