/* SPDX-License-Identifier: MIT
 *
 * Convolutions without cuDNN: patches (kernels/im2col.cu) and products. With P the patches [pixels of the outputs][window x in],
 *
 *     y = P W^T          dW = dy^T P          dP = dy W, and dx gathers what its elements became in dP
 *
 * in pieces of as many images as fit PATCH_BYTES of patches, so that the workspace does not grow with the batch. A window of 1
 * that moves by 1 needs no patches: x is P. Pieces depend on the shape alone. The gradient of a filter is summed over the pieces:
 * in fp32 in its own place, else in the workspace, in fp32, and is rounded once.
 */
#include "kernels/kernels.h"
#include "nn/convolution.h"
#include "sys/exit_codes.h"

#define PATCH_BYTES ((size_t)32 << 20)
#define ALIGNMENT 256 /* of the patches behind the sums */

static bool direct(const struct convolution_shape *s)
{
    return s->kernel == 1 && s->stride == 1;
}

static size_t window(const struct convolution_shape *s)
{
    return s->kernel * s->kernel * s->in;
}

static size_t pixels(const struct convolution_shape *s, size_t images)
{
    return images * s->out_height * s->out_height;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

int convolution_room_open(struct convolution_room *room, const struct replica *replica)
{
    (void)room, (void)replica;
    return EXIT_OK;
}

void convolution_room_close(struct convolution_room *room)
{
    (void)room;
}

int convolution_open(struct convolution *c, struct convolution_room *room, const struct replica *replica)
{
    const struct convolution_shape *s = &c->shape;
    size_t element = element_size(replica_type(replica)), image = pixels(s, 1) * window(s) * element;
    size_t patches = room->workspace_bytes - room->sums_bytes;

    c->piece = replica->batch_max;
    if (direct(s))
        return EXIT_OK;
    c->piece = larger(PATCH_BYTES / image, 1);
    patches = larger(patches, smaller(c->piece, replica->batch_max) * image);
    if (replica_type(replica) != ELEMENT_F32 && c->piece < replica->batch_max) {
        size_t sums = s->out * window(s) * sizeof(float);
        room->sums_bytes = larger(room->sums_bytes, (sums + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }
    room->workspace_bytes = room->sums_bytes + patches;
    return EXIT_OK;
}

void convolution_close(struct convolution *c)
{
    c->piece = 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Images of one piece of a tensor. */
struct piece {
    size_t first, images;
};

static struct piece next_piece(const struct convolution *c, struct piece before, size_t batch)
{
    size_t first = before.first + before.images;

    return (struct piece){first, smaller(c->piece, batch - first)};
}

/* Where image `first` begins in a tensor of so many elements an image. */
static void *from_image(const struct replica *replica, const void *tensor, size_t first, size_t elements)
{
    return (char *)(uintptr_t)tensor + first * elements * element_size(replica_type(replica));
}

static size_t image_in(const struct convolution_shape *s)
{
    return s->height * s->height * s->in;
}

static size_t image_out(const struct convolution_shape *s)
{
    return pixels(s, 1) * s->out;
}

static struct patch_shape patch_shape_of(const struct convolution_shape *s)
{
    return (struct patch_shape){s->height,     s->height,     s->in,         s->kernel, s->stride,
                                s->kernel / 2, s->out_height, s->out_height};
}

static void *patches_in(const struct convolution_room *room)
{
    return (char *)room->workspace + room->sums_bytes;
}

/* *patches: those of a piece of x, made now, or x itself. */
static int make_patches(const struct convolution_shape *s, const struct convolution_room *room, const struct replica *replica,
                        const void *x, struct piece piece, const void **patches)
{
    const struct patch_shape shape = patch_shape_of(s);

    x = from_image(replica, x, piece.first, image_in(s));
    *patches = direct(s) ? x : patches_in(room);
    if (!direct(s))
        GPU_TRY(kernel_im2col(replica_type(replica), patches_in(room), x, &shape, piece.images, replica->compute));
    return EXIT_OK;
}

/* ---- the three passes -------------------------------------------------------------------------------------------- */

int convolution_forward(struct convolution *c, const struct convolution_room *room, const struct replica *replica, void *y,
                        const void *x, size_t batch)
{
    const struct convolution_shape *s = &c->shape;
    const void *filter = replica_parameter(replica, s->weight), *patches;

    for (struct piece p = next_piece(c, (struct piece){0}, batch); p.images; p = next_piece(c, p, batch)) {
        TRY(make_patches(s, room, replica, x, p, &patches));
        const struct product product = {from_image(replica, y, p.first, image_out(s)), patches, filter, CUBLAS_OP_N, CUBLAS_OP_T,
                                        pixels(s, p.images), s->out, window(s), 0};
        TRY(product_enqueue(replica, &product));
    }
    return EXIT_OK;
}

/* sum (of the model's type, or fp32) = dy^T P, or added to what is there. */
static int sum_pieces(struct convolution *c, const struct convolution_room *room, const struct backward *pass, void *sum,
                      bool add, const void *dy, const void *x)
{
    const struct convolution_shape *s = &c->shape;
    const struct replica *replica = pass->replica;
    const void *patches;

    for (struct piece p = next_piece(c, (struct piece){0}, pass->batch); p.images; p = next_piece(c, p, pass->batch)) {
        TRY(make_patches(s, room, replica, x, p, &patches));
        const struct product product = {.c = sum,
                                        .a = from_image(replica, dy, p.first, image_out(s)),
                                        .b = patches,
                                        .op_a = CUBLAS_OP_T,
                                        .op_b = CUBLAS_OP_N,
                                        .rows = s->out,
                                        .columns = window(s),
                                        .k = pixels(s, p.images),
                                        .beta = add || p.first ? 1 : 0,
                                        .c_is_float = sum == room->workspace};
        TRY(product_enqueue(replica, &product));
    }
    return EXIT_OK;
}

int convolution_backward_filter(struct convolution *c, const struct convolution_room *room, const struct backward *pass,
                                const void *dy, const void *x)
{
    const struct replica *replica = pass->replica;
    enum element_type type = replica_type(replica);
    void *gradient = replica_gradient(replica, c->shape.weight), *sums = room->workspace;
    size_t count = c->shape.out * window(&c->shape);

    if (type == ELEMENT_F32 || pass->batch <= c->piece) {
        TRY(sum_pieces(c, room, pass, gradient, pass->accumulate, dy, x));
    } else {
        if (pass->accumulate)
            GPU_TRY(kernel_cast(ELEMENT_F32, sums, type, gradient, count, replica->compute));
        TRY(sum_pieces(c, room, pass, sums, pass->accumulate, dy, x));
        GPU_TRY(kernel_cast(type, gradient, ELEMENT_F32, sums, count, replica->compute));
    }
    return backward_ready(pass, c->shape.weight);
}

int convolution_backward_data(struct convolution *c, const struct convolution_room *room, const struct backward *pass, void *dx,
                              const void *dy)
{
    const struct convolution_shape *s = &c->shape;
    const struct replica *replica = pass->replica;
    const struct patch_shape shape = patch_shape_of(s);
    const void *filter = replica_parameter(replica, s->weight);

    for (struct piece p = next_piece(c, (struct piece){0}, pass->batch); p.images; p = next_piece(c, p, pass->batch)) {
        void *to = from_image(replica, dx, p.first, image_in(s)), *patches = direct(s) ? to : patches_in(room);
        const struct product product = {patches, from_image(replica, dy, p.first, image_out(s)), filter, CUBLAS_OP_N, CUBLAS_OP_N,
                                        pixels(s, p.images), window(s), s->out, 0};
        TRY(product_enqueue(replica, &product));
        if (!direct(s))
            GPU_TRY(kernel_col2im(replica_type(replica), to, patches, &shape, p.images, replica->compute));
    }
    return EXIT_OK;
}
