package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/cantus-bus/cantus/internal/stall"
)

// stallLimit is how long a node may send nothing of a file. Files are large, so the time for one of them has no bound.
const stallLimit = 30 * time.Second

var errStalled = fmt.Errorf("the node sent nothing for %v", stallLimit)

// Is makes an answer "not found" match fs.ErrNotExist.
func (e *Refused) Is(target error) bool {
	return target == fs.ErrNotExist && e.Status == http.StatusNotFound
}

// One returns a client of the first node that answers, for requests that must all reach the same.
func (c *Client) One(ctx context.Context) (*Client, error) {
	var errs []error
	for _, base := range c.bases {
		one := &Client{bases: []string{base}, http: c.http}
		err := one.Get(ctx, "/v1/health/live", nil)
		if err == nil {
			return one, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Base is the first node's address, with its scheme.
func (c *Client) Base() string { return c.bases[0] }

// Open reads what lies under path, from an offset on, on the first node. The caller closes it. errors.Is(err, fs.ErrNotExist) if the
// node has nothing there.
func (c *Client) Open(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	ctx, watch := stall.New(ctx, stallLimit, errStalled)
	resp, err := c.open(ctx, c.bases[0]+path, offset)
	if err != nil {
		return nil, watch.End(err)
	}
	return watch.Body(resp.Body), nil
}

func (c *Client) open(ctx context.Context, url string, offset int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	want := http.StatusOK
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		want = http.StatusPartialContent
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane: %w (is the node up? --http or CANTUS_HTTP names another)", err)
	}
	if resp.StatusCode == want {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("GET %s: read the answer: %w", url, err)
	}
	return nil, refusal("GET "+url, resp.StatusCode, body)
}
