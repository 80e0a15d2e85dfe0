#!/usr/bin/env python3
"""llama.cpp as a peer, through the C functions that the package xllamacpp exports.

    llama_cpp.py MODEL.gguf 1,2,3         prints the size of the vocabulary and then the logits of all positions, one position a line
    llama_cpp.py MODEL.gguf 1,2,3 4,5,6   the same of an answer's tokens to the source 4,5,6, where the model has an encoder
    llama_cpp.py MODEL.gguf --embed 1,2,3 prints the number of the model's pooling, and then its vector, or those of all positions, one a line
    llama_cpp.py MODEL.gguf --text TEXT   prints the ids of TEXT, with the tokens that belong around it
    llama_cpp.py MODEL.gguf --see MMPROJ.gguf WIDTH HEIGHT PIXELS
                                          prints what the tower in MMPROJ makes of a picture, three bytes a pixel in the file PIXELS: for each
                                          piece of it the number of rows, and then those, one a line

Structures are passed as large opaque blocks of which only the first, stable fields are touched, so that this does not depend on
the release.
"""

import ctypes
import glob
import os
import signal
import sys
import time

from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_void_p


class Opaque(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


class Text(ctypes.Structure):
    """`mtmd_input_text`."""

    _fields_ = [("text", c_char_p), ("add_special", c_bool), ("parse_special", c_bool)]


class InitParams(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


@ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
def QUIET(level, text, _):
    """Passes errors on, and nothing else of what it logs."""
    if level == 4:
        sys.stderr.write(text.decode(errors="replace"))


def library():
    """The library, with the types of its functions declared."""
    import xllamacpp

    lib = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0])
    declared = {
        "llama_model_default_params": (Opaque, []),
        "llama_context_default_params": (Opaque, []),
        "llama_model_load_from_file": (c_void_p, [c_char_p, Opaque]),
        "llama_init_from_model": (c_void_p, [c_void_p, Opaque]),
        "llama_batch_init": (Batch, [c_int32, c_int32, c_int32]),
        "llama_decode": (c_int32, [c_void_p, Batch]),
        "llama_encode": (c_int32, [c_void_p, Batch]),
        "llama_get_logits_ith": (POINTER(c_float), [c_void_p, c_int32]),
        "llama_set_embeddings": (None, [c_void_p, c_bool]),
        "llama_pooling_type": (c_int, [c_void_p]),
        "llama_model_n_embd": (c_int32, [c_void_p]),
        "llama_model_n_embd_inp": (c_int32, [c_void_p]),
        "llama_get_embeddings_ith": (POINTER(c_float), [c_void_p, c_int32]),
        "llama_get_embeddings_seq": (POINTER(c_float), [c_void_p, c_int32]),
        "llama_get_memory": (c_void_p, [c_void_p]),
        "llama_memory_clear": (None, [c_void_p, c_bool]),
        "llama_model_get_vocab": (c_void_p, [c_void_p]),
        "llama_vocab_n_tokens": (c_int32, [c_void_p]),
        "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool]),
        "llama_log_set": (None, [c_void_p, c_void_p]),
        "mtmd_log_set": (None, [c_void_p, c_void_p]),
        "mtmd_default_marker": (c_char_p, []),
        "mtmd_context_params_default": (Opaque, []),
        "mtmd_init_from_file": (c_void_p, [c_char_p, c_void_p, Opaque]),
        "mtmd_bitmap_init": (c_void_p, [c_int32, c_int32, c_char_p]),
        "mtmd_input_chunks_init": (c_void_p, []),
        "mtmd_tokenize": (c_int32, [c_void_p, c_void_p, POINTER(Text), POINTER(c_void_p), c_size_t]),
        "mtmd_input_chunks_size": (c_size_t, [c_void_p]),
        "mtmd_input_chunks_get": (c_void_p, [c_void_p, c_size_t]),
        "mtmd_input_chunk_get_type": (c_int, [c_void_p]),
        "mtmd_input_chunk_get_n_tokens": (c_size_t, [c_void_p]),
        "mtmd_encode_chunk": (c_int32, [c_void_p, c_void_p]),
        "mtmd_get_output_embd": (POINTER(c_float), [c_void_p]),
        "ggml_init": (c_void_p, [InitParams]),
        "ggml_free": (None, [c_void_p]),
        "ggml_new_tensor_2d": (c_void_p, [c_void_p, c_int, c_int64, c_int64]),
        "ggml_get_data": (c_void_p, [c_void_p]),
        "ggml_mul_mat": (c_void_p, [c_void_p, c_void_p, c_void_p]),
        "ggml_new_graph": (c_void_p, [c_void_p]),
        "ggml_build_forward_expand": (None, [c_void_p, c_void_p]),
        "ggml_graph_compute_with_ctx": (c_int, [c_void_p, c_void_p, c_int]),
        "ggml_quantize_chunk": (c_size_t, [c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.llama_log_set(QUIET, None)
    lib.mtmd_log_set(QUIET, None)
    return lib


class Model:
    """A model of one sequence, in a context of so many tokens, with attention in f32 throughout where `exact`."""

    def __init__(self, path, context=512, exact=False):
        self.lib = library()
        self.lib.llama_backend_init()
        self.model = self.lib.llama_model_load_from_file(os.fsencode(path), self.lib.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp does not load {path}")
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.size = self.lib.llama_vocab_n_tokens(self.vocab)
        self.length, self.context, self.exact = context, None, exact

    def tokenize(self, text):
        """The ids of a text, with the tokens that belong around it."""
        text = text.encode()
        tokens = (c_int32 * (len(text) + 8))()
        return tokens[: self.lib.llama_tokenize(self.vocab, text, len(text), tokens, len(tokens), True, True)]

    def parameters(self):
        """Those of the context."""
        params = self.lib.llama_context_default_params()
        for i in range(3):  # n_ctx, n_batch, n_ubatch
            params.words[i] = self.length
        if self.exact:
            # Flash attention, by default -1, is the last of four such settings; 0 keeps it from rounding to f16. The types of the
            # cached keys and values stand side by side; both are f16 by default, which is 1, and f32 is 0.
            words = list(params.words)
            flash = next((i + 3 for i in range(4, 20) if words[i : i + 4] == [0xFFFFFFFF] * 4), None)
            types = next((i for i in range(10, 60) if words[i] == words[i + 1] == 1), None)
            if flash is None or types is None:
                sys.exit("llama.cpp's context parameters are not as expected")
            for at in flash, types, types + 1:
                params.words[at] = 0
        return params

    def logits(self, ids, source=()):
        """A pointer to the logits of each position of a new sequence, good until the next call."""
        self.decode(ids, source=source)
        return [self.lib.llama_get_logits_ith(self.context, i) for i in range(len(ids))]

    def embeddings(self, ids):
        """The number of the model's pooling, and its vector of a text, or those of all positions where it is 0."""
        self.decode(ids, embeddings=True)
        width, pooling = self.lib.llama_model_n_embd(self.model), self.lib.llama_pooling_type(self.context)
        if pooling:
            rows = [self.lib.llama_get_embeddings_seq(self.context, 0)]
        else:
            rows = [self.lib.llama_get_embeddings_ith(self.context, i) for i in range(len(ids))]
        return pooling, [row[:width] for row in rows]

    def see(self, tower, width, height, pixels):
        """For each piece that llama.cpp cuts a picture into, the rows that the tower in the file `tower` makes of it."""
        params = self.lib.mtmd_context_params_default()
        # Flash attention, by default -1, stands before a truth value and two limits of -1; 0 keeps it from rounding to f16.
        words, unset = list(params.words), 0xFFFFFFFF
        flash = next((i for i in range(4, 20) if words[i : i + 4] == [unset, 1, unset, unset]), None)
        if flash is None:
            sys.exit("llama.cpp's parameters for towers are not as expected")
        params.words[flash] = 0
        context = self.lib.mtmd_init_from_file(os.fsencode(tower), self.model, params)
        if not context:
            sys.exit(f"llama.cpp does not load {tower}")
        chunks = self.lib.mtmd_input_chunks_init()
        picture = (c_void_p * 1)(self.lib.mtmd_bitmap_init(width, height, pixels))
        text = Text(self.lib.mtmd_default_marker(), False, True)
        if self.lib.mtmd_tokenize(context, chunks, ctypes.byref(text), picture, 1):
            sys.exit("llama.cpp does not cut the picture")
        row = self.lib.llama_model_n_embd_inp(self.model)
        for i in range(self.lib.mtmd_input_chunks_size(chunks)):
            chunk = self.lib.mtmd_input_chunks_get(chunks, i)
            if self.lib.mtmd_input_chunk_get_type(chunk) != 1:
                continue
            if self.lib.mtmd_encode_chunk(context, chunk):
                sys.exit("llama.cpp does not encode the picture")
            count, rows = self.lib.mtmd_input_chunk_get_n_tokens(chunk), self.lib.mtmd_get_output_embd(context)
            yield [rows[j * row : (j + 1) * row] for j in range(count)]

    def decode(self, ids, embeddings=False, source=()):
        """Reads a new sequence, which answers to a source where there is one."""
        if self.context is None:
            self.context = self.lib.llama_init_from_model(self.model, self.parameters())
            if not self.context:
                sys.exit("llama.cpp makes no context")
            self.batch = self.lib.llama_batch_init(self.length, 0, 1)
        self.lib.llama_set_embeddings(self.context, embeddings)
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        if source and self.lib.llama_encode(self.context, self.filled(source)):
            sys.exit("llama.cpp does not encode")
        if self.lib.llama_decode(self.context, self.filled(ids)):
            sys.exit("llama.cpp does not decode")

    def filled(self, ids):
        """The batch with these tokens."""
        self.batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i], self.batch.logits[i] = token, i, 1, 1
            self.batch.seq_id[i][0] = 0
        return self.batch


class MatMul:
    """The product of a matrix `[rows, columns]` of any type, given as its bytes, with `count` random vectors, on one thread."""

    def __init__(self, kind, raw, rows, columns, count, x):
        self.lib = library()
        bytes_ = len(raw) + 4 * count * (2 * rows + 3 * columns) + (64 << 20)
        self.context = self.lib.ggml_init(InitParams(bytes_, None, False))
        weight = self.lib.ggml_new_tensor_2d(self.context, kind, columns, rows)
        vectors = self.lib.ggml_new_tensor_2d(self.context, 0, columns, count)
        ctypes.memmove(self.lib.ggml_get_data(weight), raw, len(raw))
        ctypes.memmove(self.lib.ggml_get_data(vectors), x, 4 * count * columns)
        self.graph = self.lib.ggml_new_graph(self.context)
        self.lib.ggml_build_forward_expand(self.graph, self.lib.ggml_mul_mat(self.context, weight, vectors))

    def seconds(self):
        """How long one product takes. Each needs a little of the context's memory."""
        begin = time.perf_counter()
        self.lib.ggml_graph_compute_with_ctx(self.context, self.graph, 1)
        return time.perf_counter() - begin

    def close(self):
        self.lib.ggml_free(self.context)


def main():
    signal.alarm(120)  # a failed assertion of ggml can hang while it looks for a debugger
    model = Model(sys.argv[1], exact=True)
    if sys.argv[2] == "--text":
        print(*model.tokenize(sys.argv[3]))
    elif sys.argv[2] == "--see":
        with open(sys.argv[6], "rb") as file:
            for rows in model.see(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), file.read()):
                print(len(rows))
                for row in rows:
                    print(*row)
    elif sys.argv[2] == "--embed":
        pooling, rows = model.embeddings([int(i) for i in sys.argv[3].split(",")])
        print(pooling)
        for row in rows:
            print(*row)
    else:
        print(model.size)
        for row in model.logits(*([int(i) for i in ids.split(",")] for ids in sys.argv[2:])):
            print(*row[: model.size])
    sys.stdout.flush()
    os._exit(0)  # the library's own end can hang


if __name__ == "__main__":
    main()
