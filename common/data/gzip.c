/* SPDX-License-Identifier: MIT
 *
 * See gzip.h. zlib checks the format, the check sum and the length; here stands what it leaves open: how much memory a
 * file may ask for, and that it ends where it should.
 */
#include "data/gzip.h"

#include <stdint.h>
#include <stdlib.h>

#include "config.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define LEAST_BYTES 18      /* header 10, trailer 8 */
#define MOST_EXPANSION 1032 /* deflate: 258 bytes out of 2 bits (zlib's technical notes) */

bool gzip_recognize(const void *data, size_t bytes)
{
    const uint8_t *file = data;

    return bytes >= 2 && file[0] == 0x1f && file[1] == 0x8b;
}

#if HAVE_ZLIB
#include <zlib.h>

#define GZIP_FORMAT 16 /* added to the window's bits: zlib expects gzip's header and trailer */

int gzip_length(const char *name, const void *data, size_t bytes, size_t *unpacked)
{
    const uint8_t *file = data, *end = file + bytes;

    if (bytes < LEAST_BYTES) {
        log_error("%s: %zu bytes found, expected at least the %d of a gzip file", name, bytes, LEAST_BYTES);
        return EXIT_BAD_FILE;
    }
    *unpacked = end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
    if (*unpacked / MOST_EXPANSION > bytes) {
        log_error(
            "%s: byte %zu: an unpacked length of %zu found, expected at most %zu of a gzip file of %zu bytes: cut or "
            "damaged",
            name, bytes - 4, *unpacked, bytes * MOST_EXPANSION, bytes);
        return EXIT_BAD_FILE;
    }
    return EXIT_OK;
}

static int begin(z_stream *stream, const char *name, const void *data, size_t bytes)
{
    if (bytes > UINT32_MAX) {
        log_error("%s: %zu bytes found, expected at most %u of a gzip file", name, bytes, UINT32_MAX);
        return EXIT_BAD_FILE;
    }
    *stream = (z_stream){.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    if (inflateInit2(stream, MAX_WBITS + GZIP_FORMAT) == Z_OK)
        return EXIT_OK;
    log_error("%s: no memory to unpack it", name);
    return EXIT_RESOURCE;
}

/* What inflate's answer `code` means when out of `bytes` bytes `expected` bytes were to come. */
static int report(const z_stream *stream, const char *name, int code, size_t bytes, size_t expected)
{
    size_t at = bytes - stream->avail_in;

    if (code == Z_MEM_ERROR) {
        log_error("%s: no memory to unpack it", name);
        return EXIT_RESOURCE;
    }
    if (code == Z_DATA_ERROR || code == Z_NEED_DICT)
        log_error("%s: byte %zu: damaged gzip data found (%s), expected %zu bytes unpacked", name, at,
                  stream->msg ? stream->msg : "a dictionary", expected);
    else if (stream->avail_out == 0)
        log_error("%s: byte %zu: more unpacked bytes found, expected %zu", name, at, expected);
    else
        log_error("%s: %lu unpacked bytes found, expected %zu: cut", name, stream->total_out, expected);
    return EXIT_BAD_FILE;
}

int gzip_begin(const char *name, const void *data, size_t bytes, void *first, size_t count)
{
    z_stream stream;
    int status = begin(&stream, name, data, bytes);

    if (status)
        return status;
    stream.next_out = first;
    stream.avail_out = (uInt)count;
    int code = inflate(&stream, Z_SYNC_FLUSH);
    if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || stream.avail_out > 0)
        status = report(&stream, name, code, bytes, count);
    (void)inflateEnd(&stream);
    return status;
}

static int unpack(z_stream *stream, const char *name, size_t bytes, size_t unpacked, void *content)
{
    stream->next_out = content;
    stream->avail_out = (uInt)unpacked;
    int code = inflate(stream, Z_FINISH);
    if (code != Z_STREAM_END)
        return report(stream, name, code, bytes, unpacked);
    if (stream->total_out == unpacked && stream->avail_in == 0)
        return EXIT_OK;
    log_error("%s: %lu unpacked bytes and %u bytes after their end found, expected %zu and none", name,
              stream->total_out, stream->avail_in, unpacked);
    return EXIT_BAD_FILE;
}

int gzip_unpack(const char *name, const void *data, size_t bytes, size_t unpacked, void **content)
{
    z_stream stream;
    int status = begin(&stream, name, data, bytes);

    *content = NULL;
    if (status)
        return status;
    void *memory = malloc(unpacked + 1); /* never of 0 bytes */
    if (memory) {
        status = unpack(&stream, name, bytes, unpacked, memory);
    } else {
        log_error("%s: no memory for its %zu bytes", name, unpacked);
        status = EXIT_RESOURCE;
    }
    (void)inflateEnd(&stream);
    if (status)
        free(memory);
    else
        *content = memory;
    return status;
}

#else

static int refuse(const char *name)
{
    log_error("%s: is compressed, and this program was built without zlib: gunzip it", name);
    return EXIT_RESOURCE;
}

int gzip_length(const char *name, const void *data, size_t bytes, size_t *unpacked)
{
    (void)data;
    (void)bytes;
    (void)unpacked;
    return refuse(name);
}

int gzip_begin(const char *name, const void *data, size_t bytes, void *first, size_t count)
{
    (void)data;
    (void)bytes;
    (void)first;
    (void)count;
    return refuse(name);
}

int gzip_unpack(const char *name, const void *data, size_t bytes, size_t unpacked, void **content)
{
    (void)data;
    (void)bytes;
    (void)unpacked;
    *content = NULL;
    return refuse(name);
}

#endif
